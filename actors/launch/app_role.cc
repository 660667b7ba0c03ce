#include "actors/launch/app_role.h"

#include <signal.h>

#include <cstdio>
#include <memory>
#include <optional>

#include "actors/launch/exit_request.h"
#include "actors/launch/supervisor_event_queue.h"
#include "actors/supervision/process_launcher.h"
#include "actors/supervision/process_platform.h"
#include "actors/supervision/signal_handler.h"
#include "core/base/terminal.h"

namespace weft::actors {

std::vector<std::string> app_command(const std::filesystem::path& app, const std::string& role,
                                     const std::filesystem::path& run_file,
                                     const std::vector<std::string>& overrides,
                                     const std::filesystem::path& config_folder) {
  std::vector<std::string> command = {app.string(), "--weft-role=" + role, "--config",
                                      run_file.string()};
  for (const std::string& assignment : overrides)
    command.insert(command.end(), {"--set", assignment});
  if (!config_folder.empty())
    command.insert(command.end(), {"--config-folder", config_folder.string()});
  return command;
}

int run_app_role(const std::filesystem::path& app, const std::string& role,
                 const std::filesystem::path& run_file, const std::vector<std::string>& overrides,
                 const std::vector<std::string>& more, const std::filesystem::path& config_folder) {
  SupervisorEventQueue queue;
  const SignalHandler signals([&](const ReceivedSignal& signal) {
    if (signal.asks_to_end()) queue.add({SupervisorEvent::Kind::kSignal, "", {}});
  });
  const std::unique_ptr<ProcessLauncher> launcher = make_launcher();
  ProcessSpec spec{role + " of " + app.filename().string(),
                   app_command(app, role, run_file, overrides, config_folder),
                   {},
                   ""};
  spec.command.insert(spec.command.end(), more.begin(), more.end());
  ProcessEvents events;
  events.on_death = [&](const ExitReport& evidence) {
    queue.add({SupervisorEvent::Kind::kDriverEnded, "", evidence});
  };
  const pid_t pid = launcher->launch(spec, events);
  const auto event = queue.next(std::nullopt);
  if (event->kind == SupervisorEvent::Kind::kSignal) {
    say(stderr, "weft: interrupted, '{}' ends\n", spec.label);
    return kInterrupted;  // the launcher's destructor ends the app
  }
  // The reader of its output has read enough: `weft plan cluster.yaml | head`.
  if (event->evidence.signal == SIGPIPE) return 0;
  // The request to end everything reached the app first.
  if (ReceivedSignal{event->evidence.signal}.asks_to_end()) return kInterrupted;
  if (event->evidence.was_signalled()) {
    say(stderr, "weft: {} (pid {}) died: {}\n", spec.label, pid, event->evidence.cause());
    return 1;
  }
  return event->evidence.status;
}

}  // namespace weft::actors
