#include "actors/head/state_store.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/error.h"

namespace weft::actors {
namespace {

std::string random_id() {
  std::uint64_t words[2];
  if (::getrandom(words, sizeof words, 0) != sizeof words) throw_error(ErrorCode::kInternal, "getrandom: {}", ::strerror(errno));
  return fmt::format("{:016x}{:016x}", words[0], words[1]);
}

}  // namespace

void StateStore::Close::operator()(sqlite3* database) const { ::sqlite3_close(database); }

/// A prepared statement; lives for one call.
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
  Statement& bind(const std::string& value) {
    check(::sqlite3_bind_text(statement_, ++bound_, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT));
    return *this;
  }
  /// True while there is a row.
  bool step() {
    const int result = ::sqlite3_step(statement_);
    if (result != SQLITE_ROW && result != SQLITE_DONE) check(result);
    return result == SQLITE_ROW;
  }
  std::int64_t integer(int column) { return ::sqlite3_column_int64(statement_, column); }
  std::string text(int column) {
    const auto* bytes = reinterpret_cast<const char*>(::sqlite3_column_text(statement_, column));
    return bytes == nullptr ? std::string()
                            : std::string(bytes, static_cast<std::size_t>(::sqlite3_column_bytes(statement_, column)));
  }

 private:
  void check(int result) const {
    if (result != SQLITE_OK) throw_error(ErrorCode::kDataLoss, "the head's state (head.db): {}", ::sqlite3_errmsg(database_));
  }
  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

StateStore::StateStore(const std::filesystem::path& directory) : path_(directory / "head.db") {
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  const std::string lock_path = (directory / "head.lock").string();
  lock_ = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0)
    throw_error(ErrorCode::kFailedPrecondition, "the head cannot write its state directory {}: {}; give another with --state",
                directory.string(), ::strerror(errno));
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock_);
    throw_error(ErrorCode::kFailedPrecondition,
                "another head runs on the state directory {}; stop it, or give another directory with --state",
                directory.string());
  }
  sqlite3* opened = nullptr;
  const int result = ::sqlite3_open(path_.c_str(), &opened);
  database_.reset(opened);
  if (result != SQLITE_OK)
    throw_error(ErrorCode::kDataLoss, "the head's state {} cannot be opened: {}", path_.string(), ::sqlite3_errmsg(opened));
  execute("PRAGMA journal_mode=WAL");
  execute("PRAGMA synchronous=NORMAL");
  execute("CREATE TABLE IF NOT EXISTS cluster (id TEXT NOT NULL, term INTEGER NOT NULL)");
  execute("CREATE TABLE IF NOT EXISTS mesh_epochs (mesh TEXT PRIMARY KEY, epoch INTEGER NOT NULL)");
  execute(
      "CREATE TABLE IF NOT EXISTS events (term INTEGER NOT NULL, unix_ms INTEGER NOT NULL, text TEXT NOT "
      "NULL)");
  execute(
      "CREATE TABLE IF NOT EXISTS incidents (term INTEGER NOT NULL, mesh TEXT NOT NULL, epoch INTEGER NOT "
      "NULL, text TEXT NOT NULL, "
      "PRIMARY KEY (term, mesh, epoch))");
  {
    Statement found(database_.get(), "SELECT id, term FROM cluster");
    if (found.step()) {
      cluster_id_ = found.text(0);
      term_ = static_cast<std::uint64_t>(found.integer(1));
    }
  }
  if (cluster_id_.empty()) {
    cluster_id_ = random_id();
    Statement(database_.get(), "INSERT INTO cluster VALUES (?, 0)").bind(cluster_id_).step();
  }
  ++term_;
  Statement(database_.get(), "UPDATE cluster SET term = ?").bind(static_cast<std::int64_t>(term_)).step();
}

StateStore::~StateStore() {
  database_.reset();
  ::close(lock_);
}

void StateStore::execute(const std::string& sql) {
  Statement statement(database_.get(), sql.c_str());
  while (statement.step()) {
  }
}

std::uint64_t StateStore::next_mesh_epoch(const std::string& mesh) {
  Statement statement(database_.get(),
                      "INSERT INTO mesh_epochs VALUES (?, 1) ON CONFLICT (mesh) DO UPDATE SET epoch = epoch "
                      "+ 1 RETURNING epoch");
  statement.bind(mesh);
  statement.step();
  const auto epoch = static_cast<std::uint64_t>(statement.integer(0));
  statement.step();  // to its end, which commits
  return epoch;
}

void StateStore::add_event(const ClusterEvent& event) {
  Statement(database_.get(), "INSERT INTO events VALUES (?, ?, ?)")
      .bind(static_cast<std::int64_t>(term_))
      .bind(event.unix_ms)
      .bind(event.text)
      .step();
}

void StateStore::add_incident(const Incident& incident) {
  Statement(database_.get(), "INSERT OR REPLACE INTO incidents VALUES (?, ?, ?, ?)")
      .bind(static_cast<std::int64_t>(term_))
      .bind(incident.mesh)
      .bind(static_cast<std::int64_t>(incident.epoch))
      .bind(incident.describe())
      .step();
}

std::vector<ClusterEvent> StateStore::last_events(std::size_t count) {
  Statement statement(database_.get(), "SELECT unix_ms, text FROM events ORDER BY rowid DESC LIMIT ?");
  statement.bind(static_cast<std::int64_t>(count));
  std::vector<ClusterEvent> events;
  while (statement.step()) events.push_back({statement.integer(0), statement.text(1)});
  std::reverse(events.begin(), events.end());
  return events;
}

std::vector<std::string> StateStore::incidents() {
  Statement statement(database_.get(), "SELECT text FROM incidents WHERE term = ? ORDER BY rowid");
  statement.bind(static_cast<std::int64_t>(term_));
  std::vector<std::string> texts;
  while (statement.step()) texts.push_back(statement.text(0));
  return texts;
}

}  // namespace weft::actors
