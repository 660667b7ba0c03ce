#pragma once

#include <functional>

#include "core/config/config_node.h"
#include "core/device/device_config.h"

namespace weft::apps {

/// Returns the reader of the keys of `cluster:` about devices, for actors::parse_cluster():
/// `device`, `share_gpu` and `deterministic`. Borrows `config`.
std::function<void(const ConfigNode& cluster)> keys_into(DeviceConfig& config);

}  // namespace weft::apps
