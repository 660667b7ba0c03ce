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

/// Persistent state of the head: the cluster's id, its term, the epoch of each mesh, members,
/// meshes, runs, events and incidents.
///
/// One SQLite database in WAL mode, `head.db` in the state directory. Locked as long as this object
/// lives: a second head on the directory gets Error(kFailedPrecondition). Owned by the head; one
/// thread at a time.
///
/// A disk that refuses (it is full) never causes an error, not even at the start. Answers come from
/// memory, which keeps unwritten data until the next write that succeeds. The write-ahead log is
/// never deleted, so that a head on a full disk can read its file and write its term. A head that
/// cannot even read its file begins as a new cluster, and later overwrites the file. Memory and
/// file hold the last events and incidents only (kEvents, kIncidents), as a head runs for months.
class StateStore {
 public:
  static constexpr std::size_t kEvents = 10'000;
  static constexpr std::size_t kIncidents = 1'000;
  /// Callback with a warning: at most once a minute while the state cannot be written, and once
  /// when it can again.
  using Warn = std::function<void(const std::string&)>;

  /// Least event that written data survives. A sync to the disk takes milliseconds, or half a
  /// second.
  enum class Durability { kProcessExit, kPowerLoss };
  /// Opens or creates the database and begins a new term. Creates `directory` for this user alone.
  /// `max_durability`: kProcessExit for a head that ends with its machine, so that nothing is ever
  /// synced.
  explicit StateStore(const std::filesystem::path& directory, Warn warn = {},
                      Durability max_durability = Durability::kPowerLoss);
  ~StateStore();
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  const std::string& cluster_id() const { return cluster_id_; }
  std::uint64_t term() const { return term_; }

  /// Returns 1, 2, 3, ... for each name, across terms. Call put() and sync_to_disk() before anybody
  /// is told, as an epoch must not come again after a loss of power.
  std::uint64_t next_mesh_epoch(const std::string& mesh);
  /// Makes all later epochs of a mesh greater than this one, which another process knows, and an
  /// earlier head could not write. Written with the next event.
  void raise_mesh_epoch(const std::string& mesh, std::uint64_t epoch);
  /// Kind of row: hosts, owners, meshes, runs, named actors, kept actors or reservations. Rows have
  /// names, are written with the next event or by sync_to_disk(), and are there in the next term.
  enum class Table { kHosts, kOwners, kMeshes, kRuns, kActors, kKeptActors, kReservations };
  void put(Table table, const std::string& name, std::vector<std::byte> row);
  void erase(Table table, const std::string& name);
  std::map<std::string, std::vector<std::byte>> rows(Table table) const;
  /// Erases all rows but those of runs, which are history. For a cluster that begins anew.
  void erase_member_rows();
  /// Makes changes survive a loss of power, unless the disk refuses.
  void sync_to_disk() { save(Durability::kPowerLoss); }
  /// Makes changes survive the end of the process, unless the disk refuses.
  void flush() { save(Durability::kProcessExit); }
  void add_event(const ClusterEvent& event);
  /// Adds an incident, or replaces the one of the same mesh and epoch.
  void add_incident(const Incident& incident);
  /// Returns the last `count` events, oldest first.
  std::vector<ClusterEvent> last_events(std::size_t count) const;
  /// Returns the number of events so far, which is that of the newest. Grows across terms, unless a
  /// disk has refused some.
  std::uint64_t event_count() const { return event_count_; }
  /// Returns the first `count` events after the event of that number, oldest first.
  ClusterEvents events_after(std::uint64_t number, std::size_t count) const;
  /// Returns the texts of the incidents of this term, oldest first.
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
  /// Opens the database. Called again until it succeeds.
  void open();
  /// Version of the tables and of the contents of rows. Files of newer versions are refused.
  /// From files of older versions only the id, the term, epochs, runs, events and incidents count.
  static constexpr std::int64_t kVersion = 5;
  /// Returns true if the file is older, or new. Throws Error(kIncompatible) if it is newer.
  bool check_version();
  void erase_member_rows_of_file();
  void execute(const std::string& sql);
  /// Runs `write` in a transaction: all of it counts, or nothing.
  void commit(const std::function<void()>& write);
  void roll_back();
  /// Reads the file, once. Data in memory is newer and stays.
  void read();
  void failed(const Error& error);
  /// Writes all unwritten data.
  void save(Durability durability);
  void write_rows();

  struct CloseDatabase {
    void operator()(sqlite3* database) const;
  };
  std::filesystem::path path_;
  const Durability max_durability_;
  std::unique_ptr<sqlite3, CloseDatabase> database_;
  std::string cluster_id_;
  std::uint64_t term_ = 1;
  bool read_ = false, open_ = false;

  std::map<std::string, std::uint64_t> epochs_;
  std::set<std::string> unwritten_epochs_;
  using RowKey = std::pair<Table, std::string>;
  std::map<RowKey, std::vector<std::byte>> rows_;
  std::set<RowKey> unwritten_rows_;  // Keys that are not in rows_ are to be erased.
  bool ignore_file_rows_ = false;    // True: rows in the file do not count.
  std::deque<ClusterEvent> events_;
  std::uint64_t event_count_ = 0;
  std::size_t unwritten_events_ = 0;   // Number of newest events that are not written.
  std::deque<IncidentRow> incidents_;  // Incidents of this term.
  const SteadyClock clock_;
  const Warn warn_;
  LogLimit warnings_{clock_, std::chrono::minutes(1)};
  bool failing_ = false;
};

}  // namespace weft::actors
