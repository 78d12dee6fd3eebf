//! Which store the data set is in, and where in it.

use std::path::PathBuf;

use crate::location::{
    Location, bucket_and_prefix, clean_prefix, endpoint, join_path, join_prefix,
};
use crate::origin::{Origin, Remark};
use crate::settings::{Choices, Setting, Settings, short, text};
use crate::tree::{Node, Value};
use crate::workload::{GetEngine, Target};

const TYPE: &str = "storage.storage_type";
const ROOT: &str = "storage.storage_root";
const ENDPOINT: &str = "storage.storage_options.endpoint_url";
const REGION: &str = "storage.storage_options.region";
const GET_ENGINE: &str = "storage.storage_options.get_engine";
const FOLDER: &str = "dataset.data_folder";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Local,
    S3,
}

const KINDS: Choices<Kind> = Choices {
    // The originals accept parallel_fs and then fail; it can only mean a file system.
    supported: &[("local_fs", Kind::Local), ("parallel_fs", Kind::Local), ("s3", Kind::S3)],
    not_supported: &["aistore", "direct_fs"],
};

const GET_ENGINES: Choices<GetEngine> = Choices {
    supported: &[("feedrate", GetEngine::Feedrate), ("object_store", GetEngine::ObjectStore)],
    not_supported: &[],
};

/// What the front end says about stores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hints {
    /// S3 without an endpoint is the public cloud (`--aws`).
    pub(super) aws: bool,
    /// An endpoint that only stands in the environment means S3. In DLIO's place it does not: there a
    /// workload that says nothing reads files, whatever else the shell is used for.
    pub(super) surroundings_count: bool,
}

pub(super) fn get_engine(settings: &mut Settings<'_>) -> Setting<GetEngine> {
    settings.choice(GET_ENGINE, &GET_ENGINES, GetEngine::Feedrate)
}

/// Whether keys are whole URIs, with an empty part after `s3:`, for which not every engine has a name.
pub(super) fn full_object_uri(settings: &mut Settings<'_>, get_engine: GetEngine) -> bool {
    const KEY: &str = "storage.storage_options.use_full_object_uri";
    let whole = settings.truth(KEY, false);
    if whole && get_engine == GetEngine::ObjectStore {
        let text =
            format!("is true, but object_store, the {GET_ENGINE}, has no name for such keys");
        settings.object_to_value(KEY, text);
    }
    whole
}

/// The target, and what named a store.
pub(super) fn target(
    settings: &mut Settings<'_>,
    data_folder: &Setting<String>,
    get_engine: &Setting<GetEngine>,
    hints: Hints,
) -> (Target, Option<String>) {
    let Hints { aws, .. } = hints;
    let given_kind = settings.optional_choice(TYPE, &KINDS);
    let root = root(settings, given_kind.as_ref());
    let folder = location(settings, FOLDER, data_folder);
    let endpoints = endpoints(settings);
    let region = settings.optional_text(REGION, short::<64>);

    let named = [
        root.as_ref().map(|root| (ROOT, &root.origin)),
        endpoints.as_ref().map(|endpoints| (ENDPOINT, &endpoints.origin)),
        given_kind.as_ref().map(|kind| (TYPE, &kind.origin)),
        (!matches!(folder.value, Location::Plain(_))).then_some((FOLDER, &folder.origin)),
    ];
    let store_named = store_name(named.into_iter().flatten(), aws);

    let kind = given_kind
        .unwrap_or_else(|| implied_kind(root.as_ref(), &folder, endpoints.as_ref(), hints));
    settings.record(TYPE, KINDS.name(kind.value), &kind.origin);
    let target = match kind.value {
        Kind::Local => {
            check_unused_endpoints(settings, &kind, endpoints.as_ref());
            // Without a named store a sweep starts one of S3.
            if get_engine.value == GetEngine::ObjectStore && store_named.is_some() {
                let text = format!(
                    "is object_store, a client of S3, but the store is local_fs ({})",
                    kind.origin
                );
                settings.object(&get_engine.origin, GET_ENGINE, text);
            }
            local(settings, &kind, root, folder)
        }
        Kind::S3 => {
            let place = bucket(settings, &kind, root, folder);
            match &endpoints {
                None if !aws => settings.object(
                    &kind.origin,
                    ENDPOINT,
                    "S3 is meant, but no endpoint is known: give --endpoint-url, or --aws for the \
                     public cloud",
                ),
                Some(endpoints) if aws => settings.warnings.push(Remark::about_key(
                    &endpoints.origin,
                    ENDPOINT,
                    format!("--aws has no effect: {} is used", endpoints.value.join(", ")),
                )),
                _ => {}
            }
            place.map(|(bucket, prefix)| Target::S3 {
                bucket,
                prefix,
                endpoint_urls: endpoints.map(|endpoints| endpoints.value).unwrap_or_default(),
                region: region.map(|region| region.value),
            })
        }
    };
    // Without a target there are problems, and nobody will look at this one.
    (target.unwrap_or_else(|| Target::Local { root: PathBuf::from(".") }), store_named)
}

/// The endpoints, if any are given: a text, with commas between several, or a list of such texts.
fn endpoints(settings: &mut Settings<'_>) -> Option<Setting<Vec<String>>> {
    let node = settings.find(ENDPOINT);
    let endpoints = node.map(|node| {
        // Refused ones were given all the same: that there are none is not to be said, too.
        let value = parse_endpoints(&node).unwrap_or_else(|text| {
            settings.object(&node.origin, ENDPOINT, text);
            Vec::new()
        });
        Setting { value, origin: node.origin }
    });
    let shown = endpoints.as_ref().map(|endpoints| {
        let origin = endpoints.origin.clone();
        Setting { value: endpoints.value.join(","), origin }
    });
    settings.record_optional(ENDPOINT, shown.as_ref());
    endpoints
}

fn parse_endpoints(node: &Node) -> Result<Vec<String>, String> {
    let texts = match &node.value {
        Value::Sequence(nodes) => nodes.iter().map(text).collect::<Result<Vec<_>, _>>()?,
        _ => vec![text(node)?],
    };
    let parts: Vec<_> = texts.iter().flat_map(|text| text.split(',')).map(str::trim).collect();
    let mut endpoints = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let endpoint = endpoint(part).map_err(|text| match parts.len() {
            1 => text.to_owned(),
            count => format!("entry {} of {count} is no endpoint: {text}", at + 1),
        })?;
        if endpoints.contains(&endpoint) {
            return Err(format!("the endpoint {endpoint} is given twice"));
        }
        endpoints.push(endpoint);
    }
    if endpoints.is_empty() {
        return Err("an empty list: accepts one endpoint or more".to_owned());
    }
    Ok(endpoints)
}

/// `storage.storage_root`, if any is given. `DLIO_BUCKET` speaks of buckets only, so it is no root of
/// a local store.
fn root(settings: &mut Settings<'_>, kind: Option<&Setting<Kind>>) -> Option<Setting<Location>> {
    let local = kind.is_some_and(|kind| kind.value == Kind::Local);
    let node = if local { settings.find_written(ROOT) } else { settings.find(ROOT) };
    let root = node.and_then(|node: Node| match text(&node) {
        Ok(value) => Some(Setting { value, origin: node.origin }),
        Err(text) => {
            settings.refuse(ROOT, &node, text);
            None
        }
    });
    let root = root.filter(|root| !root.value.is_empty());
    settings.record_optional(ROOT, root.as_ref());
    root.map(|root| location(settings, ROOT, &root))
}

fn location(settings: &mut Settings<'_>, key: &str, given: &Setting<String>) -> Setting<Location> {
    let origin = given.origin.clone();
    let value = Location::parse(&given.value).unwrap_or_else(|text| {
        settings.refuse(key, &Node::new(given.value.as_str(), origin.clone()), text);
        // Good for a bucket and for a folder, so that it is refused once.
        Location::Plain("refused".to_owned())
    });
    Setting { value, origin }
}

/// The kind of store that is meant when no `storage_type` says it.
fn implied_kind(
    root: Option<&Setting<Location>>,
    folder: &Setting<Location>,
    endpoints: Option<&Setting<Vec<String>>>,
    hints: Hints,
) -> Setting<Kind> {
    let is = |value, origin: &Origin| Setting { value, origin: origin.clone() };
    let places = root.into_iter().chain([folder]);
    let scheme = places.into_iter().find_map(|place| match &place.value {
        Location::S3 { .. } => Some(is(Kind::S3, &place.origin)),
        Location::File(_) => Some(is(Kind::Local, &place.origin)),
        Location::Plain(_) => None,
    });
    let variable =
        root.filter(|root| matches!(root.origin, Origin::Environment(_) | Origin::Dotenv(_)));
    let written = |origin: &Origin| matches!(origin, Origin::CommandLine(_) | Origin::File { .. });
    let endpoints = endpoints.filter(|given| hints.surroundings_count || written(&given.origin));
    if let Some(kind) = scheme {
        kind
    } else if let Some(endpoints) = endpoints {
        is(Kind::S3, &endpoints.origin)
    } else if hints.aws {
        is(Kind::S3, &Origin::CommandLine("--aws".into()))
    } else if let Some(root) = variable {
        is(Kind::S3, &root.origin)
    } else {
        is(Kind::Local, &Origin::Default)
    }
}

/// The thing of the highest layer that named a store.
fn store_name<'a>(named: impl Iterator<Item = (&'a str, &'a Origin)>, aws: bool) -> Option<String> {
    let layer = |origin: &Origin| match origin {
        Origin::CommandLine(_) => 0,
        Origin::File { .. } => 1,
        Origin::Environment(_) => 2,
        Origin::Dotenv(_) => 3,
        Origin::Shared(_) => 4,
        Origin::Default => 5,
    };
    let first = named.min_by_key(|(_, origin)| layer(origin));
    match first {
        Some((key, origin @ (Origin::File { .. } | Origin::Shared(_)))) => {
            Some(format!("{key} ({origin})"))
        }
        Some((_, origin)) => Some(origin.to_string()),
        None => aws.then(|| "--aws".to_owned()),
    }
}

/// Endpoints beside `local_fs`: a contradiction if they were typed, odd if a file gives them, normal if
/// they stand in the environment for other tools.
fn check_unused_endpoints(
    settings: &mut Settings<'_>,
    kind: &Setting<Kind>,
    endpoints: Option<&Setting<Vec<String>>>,
) {
    let Some(endpoints) = endpoints else { return };
    match &endpoints.origin {
        Origin::CommandLine(_) => settings.object(
            &endpoints.origin,
            ENDPOINT,
            format!("the store is local_fs ({}): add --set {TYPE}=s3", kind.origin),
        ),
        Origin::File { .. } => settings.warnings.push(Remark::about_key(
            &endpoints.origin,
            ENDPOINT,
            format!("not used: the store is local_fs ({})", kind.origin),
        )),
        _ => {}
    }
}

/// The folder that holds the data set.
fn local(
    settings: &mut Settings<'_>,
    kind: &Setting<Kind>,
    root: Option<Setting<Location>>,
    folder: Setting<Location>,
) -> Option<Target> {
    let mut path = |key, place: Setting<Location>| match place.value {
        Location::Plain(text) => Some(PathBuf::from(text)),
        Location::File(path) => Some(path),
        Location::S3 { .. } => {
            let text = format!("is an S3 location, but the store is local_fs ({})", kind.origin);
            settings.object(&place.origin, key, text);
            None
        }
    };
    let root_origin = root.as_ref().map(|root| root.origin.clone());
    let root = root.map_or_else(|| Some(PathBuf::from("./")), |root| path(ROOT, root));
    let folder = path(FOLDER, folder);
    let (root, folder) = (root?, folder?);
    if let Some(origin) = root_origin
        && folder.is_absolute()
    {
        settings.warnings.push(Remark::about_key(
            &origin,
            ROOT,
            format!("not used: {FOLDER} is absolute ({})", folder.display()),
        ));
    }
    Some(Target::Local { root: join_path(&root, &folder) })
}

/// Bucket and full prefix of the data set.
fn bucket(
    settings: &mut Settings<'_>,
    kind: &Setting<Kind>,
    root: Option<Setting<Location>>,
    folder: Setting<Location>,
) -> Option<(String, String)> {
    let is_local = |origin: &Origin| {
        format!(
            "is a local folder, but S3 is meant ({origin}): accepts bucket, bucket/prefix or \
             s3://bucket/prefix"
        )
    };
    let mut root_refused = false;
    let root = root.and_then(|root| {
        let place = match root.value {
            Location::S3 { bucket, prefix } => Ok((bucket, prefix)),
            Location::Plain(text) if !Location::looks_local(&text) => bucket_and_prefix(&text),
            Location::Plain(_) | Location::File(_) => Err(is_local(&kind.origin)),
        };
        place
            .map_err(|text| {
                root_refused = true;
                settings.object(&root.origin, ROOT, text);
            })
            .ok()
    });
    let place = match (root, folder.value) {
        (_, Location::File(_)) => Err(is_local(&kind.origin)),
        (Some((bucket, _)), Location::S3 { bucket: other, .. }) if bucket != other => {
            Err(format!("is in the bucket {other}, but {ROOT} names the bucket {bucket}"))
        }
        (_, Location::S3 { bucket, prefix }) => Ok((bucket, prefix)),
        (Some((bucket, root)), Location::Plain(text)) => {
            clean_prefix(&text).map(|prefix| (bucket, join_prefix(&root, &prefix)))
        }
        (None, Location::Plain(_)) => {
            if !root_refused {
                settings.object(
                    &kind.origin,
                    ROOT,
                    "S3 is meant, but no bucket is known: name one with --bucket or \
                     storage.storage_root",
                );
            }
            return None;
        }
    };
    place.map_err(|text| settings.object(&folder.origin, FOLDER, text)).ok()
}
