"""A client of the server that the Rust test has started, and a bucket for each test.

The environment names the server: AWS_ENDPOINT_URL and the keys of an account that may do everything.
"""

import os
import re
import socket
import unittest

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

MIB = 1 << 20
ENDPOINT = os.environ["AWS_ENDPOINT_URL"]


def client(**settings):
    """A client as SDK users have it, but without retries: what fails once is to be seen."""
    config = Config(retries={"max_attempts": 1}).merge(settings.pop("config", Config()))
    return boto3.client("s3", config=config, **settings)


def body(size):
    """Bytes that are the same nowhere else in a multiple of 251."""
    return (bytes(range(251)) * (size // 251 + 1))[:size]


def resolve_localhost():
    """Lets every name below localhost be this host, as many resolvers do by themselves."""
    resolve = socket.getaddrinfo

    def resolved(host, *rest, **named):
        below = isinstance(host, str) and host.endswith(".localhost")
        return resolve("127.0.0.1" if below else host, *rest, **named)

    socket.getaddrinfo = resolved


class S3Test(unittest.TestCase):
    """Each test has an empty bucket, named after it."""

    def setUp(self):
        self.s3 = client()
        name = re.sub("[^a-z0-9]+", "-", self.id().split(".")[-1].lower())
        self.bucket = f"{name[:50]}-{os.getpid()}"
        self.s3.create_bucket(Bucket=self.bucket)

    def put(self, key, content=b"", **said):
        return self.s3.put_object(Bucket=self.bucket, Key=key, Body=content, **said)

    def get(self, key, **asked):
        answer = self.s3.get_object(Bucket=self.bucket, Key=key, **asked)
        answer["Content"] = answer["Body"].read()
        return answer

    def head(self, key, **asked):
        return self.s3.head_object(Bucket=self.bucket, Key=key, **asked)

    def keys(self):
        return [entry["Key"] for entry in self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])]

    def refused(self, status, code, call, **arguments):
        """Asserts that a call fails with this status and error code; the answer is the message."""
        with self.assertRaises(ClientError) as failed:
            call(**arguments)
        answer = failed.exception.response
        told = (answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"])
        self.assertEqual(told, (status, code), answer)
        return answer["Error"].get("Message", "")
