#include "apps/selection/internal/worker_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/spill/spill_file.h"

namespace weft::apps {

void WorkerSession::open_folders(const std::filesystem::path& scratch, std::string_view state,
                                 std::string_view spill) {
  shards_.clear();
  state_ = scratch / state;
  spill_ = scratch / fmt::format("{}-{:05}", spill, rank());
  std::error_code ignored;
  std::filesystem::remove_all(spill_, ignored);  // left by an earlier epoch
  make_folders(state_, "give another `scratch`");
  make_folders(spill_, "give another `scratch`");
}

void WorkerSession::own_shards(const ShardLayout& layout, bool discard_state) {
  owners_ = {layout, num_ranks()};
  shards_ = owners_.shards_of(rank());
  if (!discard_state) return;
  for (const auto& entry : std::filesystem::directory_iterator(state_)) {
    const std::string name = entry.path().filename().string();
    for (const std::uint32_t shard : shards_)  // other workers remove their own
      if (name.ends_with(fmt::format("-{:05}", shard))) std::filesystem::remove(entry.path());
  }
}

void WorkerSession::remove_folders() {
  std::error_code ignored;
  std::filesystem::remove_all(state_, ignored);
  std::filesystem::remove_all(spill_, ignored);
}

bool WorkerSession::owns(std::uint32_t shard) const {
  return std::ranges::binary_search(shards_, shard);
}

std::filesystem::path WorkerSession::state_file(std::string_view kind, std::uint64_t number,
                                                std::uint32_t shard) const {
  return state_ / fmt::format("{}-{:04}-{:05}", kind, number, shard);
}

std::filesystem::path WorkerSession::rank_file(std::string_view kind) const {
  return state_ / fmt::format("{}-{:05}", kind, rank());
}

void WorkerSession::write_state(const std::filesystem::path& path,
                                std::span<const std::byte> content) {
  write_spilled(path, content, SpillWriter::CommitDurability::kProcess);
}

ResourceUsage WorkerSession::resource_usage() const {
  ResourceUsage usage = ResourceUsage::of_process(port_.bytes_sent());
  usage.shard_reads = counters_.shard_reads;
  usage.bounding_reads = counters_.bounding_reads;
  usage.records = counters_.records;
  return usage;
}

}  // namespace weft::apps
