"""Sampling over long times: switches (``whydrop collect``) and the sockets of this host (``whydrop watch``)."""
