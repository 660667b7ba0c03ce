#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/head/cluster_messages.h"

struct sqlite3;

namespace weft::actors {

/// What the head must not forget: the cluster's id, its term, how often each mesh was spawned, events and
/// incidents.
///
/// One SQLite database in WAL mode, `head.db` in the state directory. Owned by the head; one thread at a
/// time. Two heads on one directory: the second throws Error(kFailedPrecondition).
class StateStore {
 public:
  /// Opens or creates it, and begins a new term. `directory` is created.
  explicit StateStore(const std::filesystem::path& directory);
  ~StateStore();
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  const std::string& cluster_id() const { return cluster_id_; }
  std::uint64_t term() const { return term_; }

  /// 1, 2, 3, ... for each name, across terms.
  std::uint64_t next_mesh_epoch(const std::string& mesh);
  void add_event(const ClusterEvent& event);
  void add_incident(const Incident& incident);
  /// The last `count` events, oldest first.
  std::vector<ClusterEvent> last_events(std::size_t count);
  /// Texts of all incidents of this term, oldest first.
  std::vector<std::string> incidents();

 private:
  class Statement;
  void execute(const std::string& sql);

  struct Close {
    void operator()(sqlite3* database) const;
  };
  std::filesystem::path path_;
  int lock_ = -1;
  std::unique_ptr<sqlite3, Close> database_;
  std::string cluster_id_;
  std::uint64_t term_ = 0;
};

}  // namespace weft::actors
