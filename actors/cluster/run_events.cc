#include "actors/cluster/run_events.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/base/private_file.h"

namespace weft::actors {
namespace {

/// Removes a partial line from the end of a file, so that the next line does not continue it,
/// unless another process has appended meanwhile.
void cut_off(int file, ssize_t half) {
  const off_t end = ::lseek(file, 0, SEEK_CUR);  // end of this process's write
  struct stat now {};
  if (::fstat(file, &now) != 0 || now.st_size != end) return;
  [[maybe_unused]] const int refused = ::ftruncate(file, end - half);
}

}  // namespace

RunEvent RunEvent::of(const Incident& incident) {
  const ProcessFailure& first = incident.failures.at(incident.first_cause);
  if (first.is_whole_mesh()) return {"incident", incident.describe(), "", first.mesh};
  return {"incident", incident.describe(), first.host, first.mesh, first.rank, first.pid};
}

std::string to_json_line(const RunEvent& event, std::int64_t unix_ms) {
  const time_t seconds = unix_ms / 1000;
  tm utc{};
  ::gmtime_r(&seconds, &utc);
  nlohmann::ordered_json line = {
      {"time",
       fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                   utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, unix_ms % 1000)},
      {"kind", event.kind}};
  if (!event.host.empty()) line["host"] = event.host;
  if (!event.mesh.empty()) line["mesh"] = event.mesh;
  if (event.rank) line["rank"] = *event.rank;
  if (event.pid) line["pid"] = *event.pid;
  line["cause"] = event.cause;
  // Quoted logs need not be UTF-8.
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void RunEvents::add(const RunEvent& event) const noexcept {
  try {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const std::string line =
        to_json_line(event, std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
    const int file = open_trusted(path_, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (file < 0) return;
    const auto written = ::write(file, line.data(), line.size());
    if (written >= 0 && written < std::ssize(line)) cut_off(file, written);
    ::close(file);
  } catch (const std::exception&) {
    return;  // out of memory: the line is lost
  }
}

}  // namespace weft::actors
