#include "actors/head/state_store.h"

#include <errno.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>

#include "core/base/error.h"
#include "core/base/platform.h"
#include "core/base/private_file.h"

namespace weft::actors {
namespace {

std::string random_id() {
  std::array<std::uint64_t, 2> words{};
  fill_with_random(std::as_writable_bytes(std::span(words)));
  return fmt::format("{:016x}{:016x}", words[0], words[1]);
}

std::string directory_of(sqlite3* database) {
  const char* file = ::sqlite3_db_filename(database, "main");
  return file == nullptr ? "" : std::filesystem::path(file).parent_path().string();
}
}  // namespace

void StateStore::CloseDatabase::operator()(sqlite3* database) const { ::sqlite3_close(database); }

/// Prepared statement. Lives for one call.
class StateStore::Statement {
 public:
  Statement(sqlite3* database, const char* sql) : database_(database) {
    check(::sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr));
  }
  ~Statement() { ::sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(std::int64_t value) {
    check(::sqlite3_bind_int64(statement_, ++bound_, value));
    return *this;
  }
  Statement& bind(const std::vector<std::byte>& value) {
    check(::sqlite3_bind_blob(statement_, ++bound_, value.data(), value.size(), SQLITE_TRANSIENT));
    return *this;
  }
  Statement& bind(const std::string& value) {
    check(::sqlite3_bind_text(statement_, ++bound_, value.data(), value.size(), SQLITE_TRANSIENT));
    return *this;
  }
  /// Returns true while there is a row.
  bool step() {
    const int result = ::sqlite3_step(statement_);
    if (result != SQLITE_ROW && result != SQLITE_DONE) check(result);
    return result == SQLITE_ROW;
  }
  std::vector<std::byte> bytes(int column) {
    const auto* begin = static_cast<const std::byte*>(::sqlite3_column_blob(statement_, column));
    return {begin, begin + ::sqlite3_column_bytes(statement_, column)};
  }
  std::int64_t integer(int column) { return ::sqlite3_column_int64(statement_, column); }
  std::string text(int column) {
    const auto* bytes = reinterpret_cast<const char*>(::sqlite3_column_text(statement_, column));
    return bytes == nullptr ? std::string()
                            : std::string(bytes, ::sqlite3_column_bytes(statement_, column));
  }

 private:
  void check(int result) const {
    if (result == SQLITE_OK) return;
    // A disk that is full, or refuses otherwise, may accept the write later.
    const int kind = result & 0xff;
    if (kind == SQLITE_BUSY)
      throw_error(ErrorCode::kFailedPrecondition,
                  "another head runs on the state directory {}; stop it, or give another directory "
                  "with --state",
                  directory_of(database_));
    const bool refused = kind == SQLITE_FULL || kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN;
    const std::filesystem::path folder = directory_of(database_);
    if (refused)
      throw_error(ErrorCode::kUnavailable, "the head cannot write its state {}: {}",
                  (folder / "head.db").string(), ::sqlite3_errmsg(database_));
    throw_error(ErrorCode::kDataLoss,
                "the head's state {} is damaged ({}): move {} and its -wal file aside, which "
                "forgets the runs of this cluster, or give another directory with --state",
                (folder / "head.db").string(), ::sqlite3_errmsg(database_), "head.db");
  }
  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

StateStore::StateStore(const std::filesystem::path& directory, Warn warn, Durability max_durability)
    : path_(directory / "head.db"), max_durability_(max_durability), warn_(std::move(warn)) {
  try {
    open();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    if (cluster_id_.empty()) cluster_id_ = random_id();
    failed(error);
  }
}

StateStore::~StateStore() {
  if (failing_) save(Durability::kPowerLoss);
}

void StateStore::make_directory() const {
  const std::filesystem::path directory = path_.parent_path();
  std::error_code refused;
  if (std::filesystem::create_directories(directory, refused)) ::chmod(directory.c_str(), 0700);
  const char* const remedy = "give another folder with --state";
  check_trusted_owner(directory, remedy);
  check_trusted_owner(path_, remedy);
  int why = refused.value();
  if (why == 0 && ::access(directory.c_str(), W_OK | X_OK) != 0) why = errno;
  if (why != 0 && why != ENOSPC && why != EDQUOT)
    throw_error(ErrorCode::kFailedPrecondition,
                "the head cannot write its state directory {}: {}; give another with --state",
                directory.string(), ::strerror(why));
}

void StateStore::open() {
  make_directory();
  if (!database_) {
    sqlite3* opened = nullptr;
    const int result = ::sqlite3_open(path_.c_str(), &opened);
    database_.reset(opened);
    if (result != SQLITE_OK) {
      const std::string why = ::sqlite3_errmsg(opened);
      database_.reset();
      throw_error(result == SQLITE_CANTOPEN ? ErrorCode::kUnavailable : ErrorCode::kDataLoss,
                  "the head's state {} cannot be opened: {}", path_.string(), why);
    }
  }
  // Keeps the write-ahead log when the head ends. On a full disk, the next head can read the file
  // only if the log exists, and writes its term into the space of the log.
  int keep_log = 1;
  ::sqlite3_file_control(database_.get(), "main", SQLITE_FCNTL_PERSIST_WAL, &keep_log);
  // Locks the database until this head ends.
  execute("PRAGMA locking_mode=EXCLUSIVE");
  execute(max_durability_ == Durability::kPowerLoss ? "PRAGMA synchronous=FULL"
                                                    : "PRAGMA synchronous=OFF");
  execute("PRAGMA journal_mode=WAL");
  const bool is_older = check_version();
  execute("CREATE TABLE IF NOT EXISTS cluster (id TEXT NOT NULL, term INTEGER NOT NULL)");
  execute("CREATE TABLE IF NOT EXISTS mesh_epochs (mesh TEXT PRIMARY KEY, epoch INTEGER NOT NULL)");
  execute(
      "CREATE TABLE IF NOT EXISTS rows (kind INTEGER NOT NULL, name TEXT NOT NULL, row BLOB NOT "
      "NULL, PRIMARY KEY (kind, name))");
  execute(
      "CREATE TABLE IF NOT EXISTS events (term INTEGER NOT NULL, unix_ms INTEGER NOT NULL, text "
      "TEXT NOT "
      "NULL)");
  execute(
      "CREATE TABLE IF NOT EXISTS incidents (term INTEGER NOT NULL, mesh TEXT NOT NULL, epoch "
      "INTEGER NOT "
      "NULL, text TEXT NOT NULL, "
      "PRIMARY KEY (term, mesh, epoch))");
  // Other versions have other members' rows. Their cluster begins anew.
  if (is_older) ignore_file_rows_ = true;
  read();
  if (cluster_id_.empty()) cluster_id_ = random_id();
  commit([&] {
    if (is_older) {
      erase_member_rows_of_file();
      execute(fmt::format("PRAGMA user_version={}", kVersion));
    }
    execute("DELETE FROM cluster");
    Statement(database_.get(), "INSERT INTO cluster VALUES (?, ?)")
        .bind(cluster_id_)
        .bind(term_)
        .step();
  });
  open_ = true;
}

void StateStore::commit(const std::function<void()>& write) {
  const auto once = [&] {
    execute("BEGIN IMMEDIATE");
    write();
    execute("COMMIT");
  };
  try {
    once();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    roll_back();
    // Copies the log into the file, so that the log begins anew in the space that it has on the
    // disk.
    execute("PRAGMA wal_checkpoint(PASSIVE)");
    once();
  }
}

void StateStore::roll_back() {
  // SQLite ends the transaction by itself after some failures.
  if (database_ && ::sqlite3_get_autocommit(database_.get()) == 0)
    ::sqlite3_exec(database_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
}

bool StateStore::check_version() {
  std::int64_t version = 0;
  {
    Statement asked(database_.get(), "PRAGMA user_version");
    if (asked.step()) version = asked.integer(0);
  }
  if (version > kVersion)
    throw_error(ErrorCode::kIncompatible,
                "the head's state {} was written by a newer Weft (version {}, this one knows up to "
                "{}); run that one, or give another directory with --state",
                path_.string(), version, kVersion);
  return version < kVersion;
}

void StateStore::execute(const std::string& sql) {
  Statement statement(database_.get(), sql.c_str());
  while (statement.step()) {
  }
}

void StateStore::erase_member_rows_of_file() {
  execute(fmt::format("DELETE FROM rows WHERE kind <> {}", static_cast<int>(Table::kRuns)));
}

void StateStore::read() {
  if (read_) return;
  if (Statement found(database_.get(), "SELECT id, term FROM cluster"); found.step()) {
    if (cluster_id_.empty()) cluster_id_ = found.text(0);
    term_ = std::max(term_, static_cast<std::uint64_t>(found.integer(1)) + 1);
  }
  Statement epochs(database_.get(), "SELECT mesh, epoch FROM mesh_epochs");
  while (epochs.step()) {
    std::uint64_t& epoch = epochs_[epochs.text(0)];
    epoch = std::max<std::uint64_t>(epoch, epochs.integer(1));
  }
  Statement rows(database_.get(), "SELECT kind, name, row FROM rows");
  while (rows.step()) {
    const RowKey key(static_cast<Table>(rows.integer(0)), rows.text(1));
    if (ignore_file_rows_ && key.first != Table::kRuns) continue;
    if (!unwritten_rows_.contains(key)) rows_.emplace(key, rows.bytes(2));
  }
  Statement events(database_.get(), "SELECT unix_ms, text FROM events ORDER BY rowid DESC LIMIT ?");
  events.bind(kEvents - events_.size());
  std::deque<ClusterEvent> older;
  while (events.step()) older.push_front({events.integer(0), events.text(1)});
  events_.insert(events_.begin(), older.begin(), older.end());
  Statement newest(database_.get(), "SELECT max(rowid) FROM events");
  if (newest.step()) event_count_ += newest.integer(0);
  read_ = true;
}

void StateStore::failed(const Error& error) {
  roll_back();
  failing_ = true;
  if (const auto held_back = warnings_.admit(); held_back && warn_)
    warn_(
        fmt::format("{}: {}; the cluster continues and keeps its state in memory; free disk space, "
                    "as the state is lost if the head ends before it can write",
                    path_.string(), error.message()));
}

void StateStore::save(Durability durability) {
  try {
    if (!open_) open();
    if (max_durability_ == Durability::kPowerLoss)
      execute(durability == Durability::kPowerLoss ? "PRAGMA synchronous=FULL"
                                                   : "PRAGMA synchronous=NORMAL");
    commit([this] { write_rows(); });
  } catch (const Error& error) {
    return failed(error);
  }
  unwritten_epochs_.clear();
  unwritten_rows_.clear();
  ignore_file_rows_ = false;
  unwritten_events_ = 0;
  for (IncidentRow& row : incidents_) row.written = true;
  if (std::exchange(failing_, false) && warn_)
    warn_(fmt::format("{} can be written again", path_.string()));
}

void StateStore::write_rows() {
  const std::int64_t term = term_;
  for (const std::string& mesh : unwritten_epochs_)
    Statement(database_.get(), "INSERT OR REPLACE INTO mesh_epochs VALUES (?, ?)")
        .bind(mesh)
        .bind(epochs_.at(mesh))
        .step();
  if (ignore_file_rows_) erase_member_rows_of_file();
  for (const RowKey& key : unwritten_rows_) {
    const auto row = rows_.find(key);
    Statement statement(database_.get(), row == rows_.end()
                                             ? "DELETE FROM rows WHERE kind = ? AND name = ?"
                                             : "INSERT OR REPLACE INTO rows VALUES (?, ?, ?)");
    statement.bind(static_cast<std::int64_t>(key.first)).bind(key.second);
    if (row != rows_.end()) statement.bind(row->second);
    statement.step();
  }
  for (std::size_t i = events_.size() - unwritten_events_; i < events_.size(); ++i)
    Statement(database_.get(), "INSERT INTO events VALUES (?, ?, ?)")
        .bind(term)
        .bind(events_[i].unix_ms)
        .bind(events_[i].text)
        .step();
  for (const IncidentRow& row : incidents_) {
    if (row.written) continue;
    Statement(database_.get(), "INSERT OR REPLACE INTO incidents VALUES (?, ?, ?, ?)")
        .bind(term)
        .bind(row.mesh)
        .bind(row.epoch)
        .bind(row.text)
        .step();
  }
  Statement(database_.get(),
            "DELETE FROM events WHERE rowid <= (SELECT max(rowid) FROM events) - ?")
      .bind(kEvents)
      .step();
  Statement(database_.get(),
            "DELETE FROM incidents WHERE rowid <= (SELECT max(rowid) FROM incidents) - ?")
      .bind(kIncidents)
      .step();
}

std::uint64_t StateStore::next_mesh_epoch(const std::string& mesh) {
  const std::uint64_t epoch = ++epochs_[mesh];
  unwritten_epochs_.insert(mesh);
  save(Durability::kProcessExit);
  return epoch;
}

void StateStore::raise_mesh_epoch(const std::string& mesh, std::uint64_t epoch) {
  std::uint64_t& newest = epochs_[mesh];
  if (newest >= epoch) return;
  newest = epoch;
  unwritten_epochs_.insert(mesh);
}

void StateStore::put(Table table, const std::string& name, std::vector<std::byte> row) {
  rows_[{table, name}] = std::move(row);
  unwritten_rows_.emplace(table, name);
}

void StateStore::erase(Table table, const std::string& name) {
  rows_.erase({table, name});
  unwritten_rows_.emplace(table, name);
}

std::map<std::string, std::vector<std::byte>> StateStore::rows(Table table) const {
  std::map<std::string, std::vector<std::byte>> found;
  for (const auto& [key, row] : rows_)
    if (key.first == table) found.emplace(key.second, row);
  return found;
}

void StateStore::erase_member_rows() {
  std::erase_if(rows_, [](const auto& row) { return row.first.first != Table::kRuns; });
  std::erase_if(unwritten_rows_, [](const RowKey& key) { return key.first != Table::kRuns; });
  ignore_file_rows_ = true;
}

void StateStore::add_event(const ClusterEvent& event) {
  events_.push_back(event);
  ++event_count_;
  if (events_.size() > kEvents) events_.pop_front();
  unwritten_events_ = std::min(unwritten_events_ + 1, events_.size());
  save(Durability::kProcessExit);
}

void StateStore::add_incident(const Incident& incident) {
  const auto known =
      std::find_if(incidents_.begin(), incidents_.end(), [&](const IncidentRow& row) {
        return row.mesh == incident.mesh && row.epoch == incident.epoch;
      });
  if (known != incidents_.end()) {
    known->text = incident.describe();
    known->written = false;
  } else {
    incidents_.push_back({incident.mesh, incident.epoch, incident.describe(), false});
    if (incidents_.size() > kIncidents) incidents_.pop_front();
  }
  save(Durability::kProcessExit);
}

std::vector<ClusterEvent> StateStore::last_events(std::size_t count) const {
  return {events_.end() - std::min(count, events_.size()), events_.end()};
}

ClusterEvents StateStore::events_after(std::uint64_t number, std::size_t count) const {
  // Number of the event before the oldest one in memory.
  const std::uint64_t before = event_count_ - events_.size();
  const std::size_t begin =
      std::min<std::uint64_t>(std::max(number, before) - before, events_.size());
  const std::size_t end = std::min(begin + count, events_.size());
  return {{events_.begin() + begin, events_.begin() + end}, before + end};
}

std::vector<std::string> StateStore::incidents() const {
  std::vector<std::string> texts;
  for (const IncidentRow& row : incidents_) texts.push_back(row.text);
  return texts;
}

}  // namespace weft::actors
