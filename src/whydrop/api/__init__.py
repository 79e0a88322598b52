"""The public functions, by what people do with them; `whydrop` itself offers them all."""
