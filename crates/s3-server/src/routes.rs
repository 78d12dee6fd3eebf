//! The S3 operations that the server has. All others keep `s3s`'s answer, `NotImplemented`, and so do
//! conditions and versions asked of these: they are refused rather than ignored.

mod get;
mod list;
mod put;

use std::sync::Arc;

use s3s::dto::{
    CreateBucketInput, CreateBucketOutput, DeleteObjectInput, DeleteObjectOutput, GetObjectInput,
    GetObjectOutput, HeadBucketInput, HeadBucketOutput, HeadObjectInput, HeadObjectOutput,
    ListObjectsV2Input, ListObjectsV2Output, PutObjectInput, PutObjectOutput,
};
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};

use crate::store::{Bucket, Store};

/// The operations on a memory store.
pub(crate) struct Routes {
    pub(crate) store: Store,
}

impl Routes {
    fn bucket(&self, name: &str) -> S3Result<Arc<Bucket>> {
        self.store
            .bucket(name)
            .ok_or_else(|| s3_error!(NoSuchBucket, "The specified bucket does not exist"))
    }
}

#[async_trait::async_trait]
impl S3 for Routes {
    async fn create_bucket(
        &self,
        request: S3Request<CreateBucketInput>,
    ) -> S3Result<S3Response<CreateBucketOutput>> {
        let name = request.input.bucket;
        if !self.store.create_bucket(&name) {
            return Err(s3_error!(BucketAlreadyOwnedByYou, "You already own this bucket"));
        }
        let location = Some(format!("/{name}"));
        Ok(S3Response::new(CreateBucketOutput { location }))
    }

    async fn head_bucket(
        &self,
        request: S3Request<HeadBucketInput>,
    ) -> S3Result<S3Response<HeadBucketOutput>> {
        self.bucket(&request.input.bucket)?;
        Ok(S3Response::new(HeadBucketOutput::default()))
    }

    async fn put_object(
        &self,
        request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let bucket = self.bucket(&request.input.bucket)?;
        put::put_object(&self.store, &bucket, request).await.map(S3Response::new)
    }

    async fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let bucket = self.bucket(&request.input.bucket)?;
        get::get_object(&bucket, &request.input).map(S3Response::new)
    }

    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let bucket = self.bucket(&request.input.bucket)?;
        get::head_object(&bucket, &request.input).map(S3Response::new)
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        let input = request.input;
        let bucket = self.bucket(&input.bucket)?;
        if input.version_id.is_some() || input.if_match.is_some() {
            return Err(unsupported());
        }
        bucket.delete(&input.key);
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let bucket = self.bucket(&request.input.bucket)?;
        list::list_objects(&bucket, request.input).map(S3Response::new)
    }
}

fn unsupported() -> s3s::S3Error {
    s3_error!(
        NotImplemented,
        "This server does not support versions, parts and conditional requests"
    )
}
