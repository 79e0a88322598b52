"""The page of whydrop in a browser: a server on this host, thin over the public functions."""

from whydrop.runtime import extras

extras.need("web")
