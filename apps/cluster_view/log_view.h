#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "actors/head/run_messages.h"

namespace weft::apps {

/// A log of a run: of a device process, or of the driver where an agent has started it.
struct RunLog {
  std::string
      label;  ///< "front[data=0]"; of a mesh that was spawned again "front[data=0] (epoch 3)"
  std::string host;
  std::string file;  ///< on its host
  actors::LogName name;
};

/// The logs of a run that somebody means: all (empty), of a mesh ("front"), of a device
/// ("front[data=0,tensor=1]" or "front[0,1]"), or of the "driver". Throws Error(kNotFound) with the
/// nearest name.
std::vector<RunLog> find_logs(const actors::RunRecord& run, const std::string& wanted);

/// "front[data=0,tensor=1]" and "front[0,1]" are one device: the second form.
std::string short_label(std::string_view label);

/// Makes lines of the pieces of one log. A value.
class LineCutter {
 public:
  /// The lines that are whole now, without their ends.
  std::vector<std::string> add(std::string_view piece);
  /// What has come since the last whole line; nothing, if nothing has.
  std::vector<std::string> rest();

 private:
  std::string unfinished_;
};

}  // namespace weft::apps
