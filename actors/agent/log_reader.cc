#include "actors/agent/log_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "actors/system/system.h"
#include "core/base/error.h"
#include "core/base/name.h"

namespace weft::actors {
namespace {

/// File that is open for reading.
class OpenFile final {
 public:
  explicit OpenFile(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {}
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  /// Returns the size in bytes; nothing, and sets errno, if it is not a readable regular file.
  std::optional<std::uint64_t> size() const {
    struct stat found {};
    if (fd_ < 0 || ::fstat(fd_, &found) != 0) return std::nullopt;
    if (!S_ISREG(found.st_mode)) {
      errno = EINVAL;
      return std::nullopt;
    }
    return found.st_size;
  }
  std::string read(std::uint64_t offset, std::uint64_t bytes) const {
    std::string text(bytes, '\0');
    std::size_t got = 0;
    while (got < text.size()) {
      const ssize_t part = ::pread(fd_, text.data() + got, text.size() - got, offset + got);
      if (part <= 0) break;
      got += part;
    }
    text.resize(got);
    return text;
  }

 private:
  const int fd_;
};

/// Returns the offset at which the last `lines` lines begin.
std::size_t begin_of_last_lines(const std::string& text, std::uint32_t lines) {
  std::size_t at = text.size();
  if (at > 0 && text[at - 1] == '\n') --at;
  for (; lines > 0 && at > 0; --lines) {
    const auto before = text.rfind('\n', at - 1);
    if (before == std::string::npos) return 0;
    at = before;
  }
  return std::min(at + 1, text.size());
}

}  // namespace

LogPiece read_log_piece(const std::filesystem::path& path, std::uint64_t begin,
                        const LogPosition& position, std::uint32_t max_bytes) {
  LogPiece piece;
  const OpenFile file(path);
  const auto size = file.size();
  if (!size) {
    piece.next = position.offset;
    piece.problem = fmt::format("{}: {}", path.string(), std::strerror(errno));
    return piece;
  }
  // The file may have been truncated to save space.
  begin = std::min(begin, *size);
  const std::uint64_t there = *size - begin;
  std::uint64_t offset = std::min(position.offset, there);
  if (position.tail_lines > 0) offset = there - std::min<std::uint64_t>(there, max_bytes);
  const bool cut = position.tail_lines > 0 && offset > 0;
  piece.text = file.read(begin + offset, std::min<std::uint64_t>(there - offset, max_bytes));
  piece.next = offset + piece.text.size();
  if (position.tail_lines > 0) {
    std::size_t from = begin_of_last_lines(piece.text, position.tail_lines);
    // Drops the first line, which is not whole.
    if (from == 0 && cut) from = piece.text.find('\n') + 1;
    piece.text.erase(0, from);
  }
  piece.more = piece.next < there;
  return piece;
}

void LogReader::log_opened(const LogId& log, std::uint64_t size) {
  if (context_.caller().id != context_.system().self().id)
    throw_error(ErrorCode::kInvalidArgument, "only the agent's own process may call this");
  if (log_starts_.size() >= kMaxKnownLogs) log_starts_.erase(log_starts_.begin());
  log_starts_[log] = size;
}

LogPiece LogReader::read_one(const LogPosition& position, std::uint32_t max_bytes) const {
  check_name("the name of a mesh or run", position.log.mesh.name);
  const auto start = log_starts_.find(position.log);
  return read_log_piece(folder_ / position.log.file(),
                        start == log_starts_.end() ? 0 : start->second, position, max_bytes);
}

std::vector<LogPiece> LogReader::read(const std::vector<LogPosition>& positions,
                                      std::uint32_t max_bytes) {
  if (positions.size() > kMaxPieces)
    throw_error(ErrorCode::kInvalidArgument, "{} logs were requested at once; request at most {}",
                positions.size(), kMaxPieces);
  std::vector<LogPiece> pieces;
  for (const LogPosition& position : positions) {
    try {
      pieces.push_back(read_one(position, std::min(max_bytes, kMaxPiece)));
    } catch (const Error& error) {
      pieces.push_back({"", position.offset, false, error.message()});
    }
  }
  return pieces;
}

}  // namespace weft::actors
