#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/head/cluster_messages.h"
#include "actors/head/run_messages.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/log/log_limit.h"

struct sqlite3;

namespace weft::actors {

/// What the head must not forget: the cluster's id, its term, how often each mesh was spawned, who
/// belongs to the cluster and what runs, events and incidents.
///
/// One SQLite database in WAL mode, `head.db` in the state directory. Owned by the head; one thread
/// at a time; locked as long as it lives. Two heads on one directory: the second throws
/// Error(kFailedPrecondition).
///
/// A disk that refuses (it is full) never throws, not even at the start: answers come from memory,
/// and what cannot be written is kept there until the next write that succeeds. SQLite's log of
/// writes is never deleted, so that a head on a full disk reads its file, and writes its term. A
/// head that could not even read its file begins as a new cluster, and its file becomes that one's.
/// Memory and file hold the last events and incidents only (kEvents, kIncidents): a head runs for
/// months.
class StateStore {
 public:
  static constexpr std::size_t kEvents = 10'000;
  static constexpr std::size_t kIncidents = 1'000;
  /// Told at most once a minute while the state cannot be written, and once when it can again.
  using Warn = std::function<void(const std::string&)>;

  /// What a write outlives at least. Each sync to the disk takes milliseconds, or half a second.
  enum class Survives { kEndOfProcess, kLossOfPower };
  /// Opens or creates it, and begins a new term. `directory` is created, for this user alone.
  /// `most`: kEndOfProcess for a head that ends with its machine, as nothing is ever synced then.
  explicit StateStore(const std::filesystem::path& directory, Warn warn = {},
                      Survives most = Survives::kLossOfPower);
  ~StateStore();
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  const std::string& cluster_id() const { return cluster_id_; }
  std::uint64_t term() const { return term_; }

  /// 1, 2, 3, ... for each name, across terms. To be followed by a put() and sync() before anybody
  /// is told: after a loss of power it must not come again.
  std::uint64_t next_mesh_epoch(const std::string& mesh);
  /// Makes all later epochs of a mesh greater than this one, which another process knows and the
  /// head before could not write. Written with the next epoch.
  void saw_mesh_epoch(const std::string& mesh, std::uint64_t epoch);
  /// What the head knows of hosts, owners, meshes or runs, by a name of its choice. Written with
  /// the next event, or by sync(). There in the next term.
  enum class Table { kHosts, kOwners, kMeshes, kRuns };
  void put(Table table, const std::string& name, std::vector<std::byte> row);
  void erase(Table table, const std::string& name);
  std::map<std::string, std::vector<std::byte>> rows(Table table) const;
  /// Erases all rows but those of runs, which are history: the cluster begins anew.
  void forget_rows();
  /// What was put and erased survives a loss of power from here on, unless the disk refuses.
  void sync() { save(Survives::kLossOfPower); }
  /// What was put and erased survives the end of the process from here on.
  void write() { save(Survives::kEndOfProcess); }
  void add_event(const ClusterEvent& event);
  /// Replaces what is known of the same mesh and epoch.
  void add_incident(const Incident& incident);
  /// The last `count` events, oldest first.
  std::vector<ClusterEvent> last_events(std::size_t count) const;
  /// How many events there have been: the number of the newest. Grows across terms, unless a disk
  /// has refused some.
  std::uint64_t event_count() const { return event_count_; }
  /// The first `count` events after the one of that number, oldest first.
  ClusterEvents events_after(std::uint64_t number, std::size_t count) const;
  /// Texts of the incidents of this term, oldest first.
  std::vector<std::string> incidents() const;

 private:
  class Statement;
  struct IncidentRow {
    std::string mesh;
    std::uint64_t epoch = 0;
    std::string text;
    bool written = false;
  };
  void make_directory() const;
  /// Again and again, until it succeeds.
  void open();
  /// Of the tables, and of what is in their rows. A file of a newer one is refused.
  static constexpr std::int64_t kVersion = 2;
  void check_version();
  void execute(const std::string& sql);
  /// Runs `write` in a transaction: all of it counts, or nothing.
  void commit(const std::function<void()>& write);
  void roll_back();
  /// Once: what the file has is older than what is in memory.
  void read();
  void failed(const Error& error);
  /// Writes what is not written yet.
  void save(Survives survives);
  void write_rows();

  struct Close {
    void operator()(sqlite3* database) const;
  };
  std::filesystem::path path_;
  const Survives most_;
  std::unique_ptr<sqlite3, Close> database_;
  std::string cluster_id_;
  std::uint64_t term_ = 1;
  bool read_ = false, open_ = false;

  std::map<std::string, std::uint64_t> epochs_;
  std::set<std::string> unwritten_epochs_;
  using RowKey = std::pair<Table, std::string>;
  std::map<RowKey, std::vector<std::byte>> rows_;
  std::set<RowKey> unwritten_rows_;  // those that are not in rows_ are to be erased
  bool forgotten_ = false;           // what the file has of rows does not count
  std::deque<ClusterEvent> events_;
  std::uint64_t event_count_ = 0;
  std::size_t unwritten_events_ = 0;   // the newest so many
  std::deque<IncidentRow> incidents_;  // of this term
  const SteadyClock clock_;
  const Warn warn_;
  LogLimit warnings_{clock_, std::chrono::minutes(1)};
  bool failing_ = false;
};

}  // namespace weft::actors
