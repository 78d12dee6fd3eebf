//! `feedrate serve`: the S3 server alone.

use feedrate_s3_server::{Config, KeyPair, Server};
use tokio::signal::unix::{SignalKind, signal};

use super::runtime;
use crate::args::ServeArgs;
use crate::embedded::new_keys;
use crate::environment::Environment;
use crate::exit::{Outcome, usage};

pub(super) fn run(args: ServeArgs) -> anyhow::Result<Outcome> {
    let environment = Environment::capture()?;
    let given = given_keys(&environment)?;
    let generated = given.is_none();
    let keys = given.unwrap_or_else(new_keys);
    let runtime = runtime()?;
    let config = Config {
        listen: args.listen,
        keys: keys.clone(),
        buckets: args.buckets,
        faults: args.faults,
        record_gets: args.record_gets,
    };
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let server = Server::bind(config).await?;
        let endpoint = format!("http://{}", server.local_addr());
        println!("{}", exports(&endpoint, generated.then_some(&keys)));
        let stop = async move {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        };
        server.serve(stop).await;
        Ok(Outcome::Finished)
    })
}

/// Keys given in the environment; they are never printed.
fn given_keys(environment: &Environment) -> anyhow::Result<Option<KeyPair>> {
    match (environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")) {
        (None, None) => Ok(None),
        (Some(access_key_id), Some(secret_access_key)) => Ok(Some(KeyPair {
            access_key_id: access_key_id.to_owned(),
            secret_access_key: secret_access_key.to_owned(),
        })),
        _ => Err(usage(
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together, and only one is set: set \
             both to choose the server's keys, or neither to have some generated",
        )),
    }
}

/// What a shell needs to use the server, on one line.
pub(super) fn exports(endpoint: &str, keys: Option<&KeyPair>) -> String {
    let keys = keys.map_or_else(String::new, |keys| {
        format!(
            " AWS_ACCESS_KEY_ID={} AWS_SECRET_ACCESS_KEY={}",
            keys.access_key_id, keys.secret_access_key
        )
    });
    format!("export AWS_ENDPOINT_URL={endpoint}{keys}")
}
