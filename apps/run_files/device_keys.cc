#include "apps/run_files/device_keys.h"

namespace weft::apps {
namespace {

void read_device_keys(const ConfigNode& cluster, DeviceConfig& config) {
  cluster.read_enum(
      "device", config.kind,
      EnumNames<DeviceKind>{
          {"cpu", DeviceKind::kCpu}, {"cuda", DeviceKind::kCuda}, {"auto", DeviceKind::kAuto}},
      KeyDescription(
          "What devices compute on: the CPU, a GPU each, or GPUs where a machine has any")
          .synonym("gpu", "cuda"));
  cluster.read("share_gpu", config.share_gpu, "Whether several devices may use one GPU");
  cluster.read("deterministic", config.deterministic,
               "Whether GPUs give the same bits in every run; false is faster for bf16 attention "
               "and NCCL sums");
  if (!config.deterministic && config.kind == DeviceKind::kCpu)
    cluster.at("deterministic")
        .record_problem("cluster.deterministic: false has no effect with `device: cpu`: remove it");
}

}  // namespace

std::function<void(const ConfigNode& cluster)> keys_into(DeviceConfig& config) {
  return [&config](const ConfigNode& cluster) { read_device_keys(cluster, config); };
}

}  // namespace weft::apps
