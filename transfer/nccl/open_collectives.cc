#include "transfer/nccl/open_collectives.h"

#include "core/base/error.h"
#include "core/cuda_support/open_plugin.h"

namespace weft::transfer {

std::unique_ptr<CollectivesPlugin> open_collectives(const PluginSearch& search) {
  auto* const entry = reinterpret_cast<CollectivesPluginEntry*>(
      open_plugin("weft_nccl", kCollectivesPluginEntry, search));
  std::unique_ptr<CollectivesPlugin> plugin(entry(collectives_plugin_stamp()));
  if (plugin == nullptr) {
    throw_error(ErrorCode::kFailedPrecondition,
                "libweft_nccl.so was built from other sources than this program: build both anew");
  }
  return plugin;
}

}  // namespace weft::transfer
