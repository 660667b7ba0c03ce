#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "actors/head/run_messages.h"

namespace weft::apps {

/// Log of a device process, or of a driver that an agent has started.
struct RunLog {
  std::string
      label;  ///< "front[data=0]", or "front[data=0] (epoch 3)" if the mesh was spawned again
  std::string host;
  std::string file;  ///< path on `host`
  actors::LogId name;
};

/// Finds the logs of a run: all (`wanted` empty), those of a mesh ("front") or a device
/// ("front[data=0,tensor=1]" or "front[0,1]"), or the "driver"'s. Throws Error(kNotFound) with the
/// nearest name.
std::vector<RunLog> find_logs(const actors::RunRecord& run, const std::string& wanted);

/// Returns whether a device process is one that actors of several meshes share, as its log says.
bool is_shared_process(const actors::RunDevice& device);

/// Shortens the name of a device: "front[data=0,tensor=1]" becomes "front[0,1]".
std::string short_label(std::string_view label);

/// Splitter of a log's pieces into lines.
class LineSplitter {
 public:
  /// Returns the lines that `piece` completes, without line ends.
  std::vector<std::string> add(std::string_view piece);
  /// Returns the incomplete last line, if there is one.
  std::vector<std::string> take_incomplete();

 private:
  std::string unfinished_;
};

}  // namespace weft::apps
