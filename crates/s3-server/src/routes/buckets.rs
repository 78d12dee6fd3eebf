//! Buckets themselves.

use s3s::dto::{
    Bucket, CreateBucketInput, CreateBucketOutput, DeleteBucketInput, DeleteBucketOutput,
    GetBucketLocationInput, GetBucketLocationOutput, HeadBucketInput, HeadBucketOutput,
    ListBucketsInput, ListBucketsOutput, Owner, Timestamp,
};
use s3s::{S3Request, S3Result};

use super::{Routes, refuse};
use crate::store::Store;

/// All buckets at once, like S3 when it is not asked for pages.
pub(super) async fn list_buckets<S: Store>(
    routes: &Routes<S>,
    request: S3Request<ListBucketsInput>,
) -> S3Result<ListBucketsOutput> {
    let input = request.input;
    refuse!(input, "lists of buckets in pages": max_buckets, continuation_token);
    let prefix = input.prefix.unwrap_or_default();
    let buckets = routes.store.buckets().await?.into_iter();
    let buckets =
        buckets.filter(|(name, _)| name.starts_with(&prefix)).map(|(name, made)| Bucket {
            name: Some(name),
            creation_date: Some(Timestamp::from(made)),
            ..Default::default()
        });
    let owner = Owner { display_name: Some("feedrate".into()), id: Some("feedrate".into()) };
    Ok(ListBucketsOutput {
        buckets: Some(buckets.collect()),
        owner: Some(owner),
        ..Default::default()
    })
}

pub(super) async fn create_bucket<S: Store>(
    routes: &Routes<S>,
    request: S3Request<CreateBucketInput>,
) -> S3Result<CreateBucketOutput> {
    let name = request.input.bucket;
    routes.store.create_bucket(&name).await?;
    Ok(CreateBucketOutput { location: Some(format!("/{name}")) })
}

pub(super) async fn head_bucket<S: Store>(
    routes: &Routes<S>,
    request: S3Request<HeadBucketInput>,
) -> S3Result<HeadBucketOutput> {
    routes.store.check_bucket(&request.input.bucket).await?;
    Ok(HeadBucketOutput::default())
}

pub(super) async fn delete_bucket<S: Store>(
    routes: &Routes<S>,
    request: S3Request<DeleteBucketInput>,
) -> S3Result<DeleteBucketOutput> {
    routes.store.delete_bucket(&request.input.bucket).await?;
    Ok(DeleteBucketOutput::default())
}

/// Nowhere in particular, which is how S3 calls us-east-1. Clients that look up a bucket's region
/// then sign for that one; the server takes any.
pub(super) async fn get_bucket_location<S: Store>(
    routes: &Routes<S>,
    request: S3Request<GetBucketLocationInput>,
) -> S3Result<GetBucketLocationOutput> {
    routes.store.check_bucket(&request.input.bucket).await?;
    Ok(GetBucketLocationOutput::default())
}
