"""Files to S3 and back: in parts, resumed, and proven to be what they were."""
