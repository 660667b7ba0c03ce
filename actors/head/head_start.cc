#include "actors/head/head_start.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace weft::actors {

void read_saved_members(const HeadConfig& config, HostTable& hosts, OwnerTable& owners,
                        Reservations& reservations, MeshTable& meshes, ActorDirectory& directory) {
  try {
    hosts.read_rows();
    owners.read_rows();
    reservations.read_rows();
    meshes.read_rows();
    directory.read_rows();
  } catch (...) {
    throw_error(
        ErrorCode::kDataLoss,
        "cannot read hosts and runs from the head's state in {}: {}; start a new cluster with "
        "another directory (--state)",
        config.state_directory.string(), current_error().message());
  }
}

std::string start_text(const HeadConfig& config, const StateStore& store, const HostTable& hosts,
                       const OwnerTable& owners) {
  const std::size_t num_hosts = hosts.all().size(), num_owners = owners.all().size();
  std::string text =
      fmt::format("head is up: cluster {}, term {}, at {}", store.cluster_id().substr(0, 12),
                  store.term(), to_string(config.address));
  if (num_hosts + num_owners > 0)
    text +=
        fmt::format("; restarted: waiting up to {:.0f} s for {} host{} and {} run{} to reconnect",
                    in_seconds(config.grace), num_hosts, num_hosts == 1 ? "" : "s", num_owners,
                    num_owners == 1 ? "" : "s");
  return text;
}

}  // namespace weft::actors
