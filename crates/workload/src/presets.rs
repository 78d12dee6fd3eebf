//! The workloads that come with the program: `workloads/*.yaml` of the repository.

/// A workload file compiled into the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// What it is called on the command line.
    pub name: &'static str,
    /// One line about it.
    pub description: &'static str,
    /// The YAML text.
    pub yaml: &'static str,
}

macro_rules! preset {
    ($name:literal, $description:literal) => {
        Preset {
            name: $name,
            description: $description,
            yaml: include_str!(concat!("../../../workloads/", $name, ".yaml")),
        }
    };
}

static PRESETS: [Preset; 4] = [
    preset!(
        "retinanet_b200",
        "RetinaNet, NVIDIA B200: 1,170,301 JPEG images of 322,957 bytes, batch 24"
    ),
    preset!(
        "retinanet_mi355",
        "RetinaNet, AMD MI355: 1,170,301 JPEG images of 322,957 bytes, batch 32"
    ),
    preset!(
        "retinanet_h100_draft",
        "RetinaNet, NVIDIA H100, superseded draft: 1,743,042 JPEG images of 153,600 ± 51,200 bytes, \
         batch 16"
    ),
    preset!(
        "retinanet_a100_draft",
        "RetinaNet, NVIDIA A100, superseded draft: 1,743,042 JPEG images of 153,600 ± 51,200 bytes, \
         batch 16"
    ),
];

/// All presets, superseded ones last.
pub fn all() -> &'static [Preset] {
    &PRESETS
}

/// The names of all presets.
pub fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|preset| preset.name)
}

/// The preset called `name`.
pub fn get(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_found_by_name() {
        for preset in all() {
            assert_eq!(get(preset.name), Some(preset));
            assert!(!preset.description.contains('\n'));
        }
        let expected =
            ["retinanet_b200", "retinanet_mi355", "retinanet_h100_draft", "retinanet_a100_draft"];
        assert_eq!(names().collect::<Vec<_>>(), expected);
        assert_eq!(get("retinanet"), None);
    }
}
