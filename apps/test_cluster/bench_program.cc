#include "apps/test_cluster/bench_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <vector>

#include "actors/launch/cluster_config.h"
#include "actors/launch/exit_request.h"
#include "actors/launch/role_arguments.h"
#include "actors/supervision/signal_handler.h"
#include "apps/test_cluster/test_hosts.h"
#include "core/base/clock.h"
#include "core/base/descriptors.h"
#include "core/base/error.h"
#include "core/base/terminal.h"

namespace weft::apps {

int run_bench_program(int argc, char** argv, const BenchProgram& program) {
  open_standard_descriptors();
  raise_descriptor_limit();
  try {
    if (actors::role_of(std::vector<std::string>(argv + 1, argv + argc))) {
      actors::AppMain app(argc, argv);
      program.register_actors(app);
      return app.run([](actors::Cluster&, const actors::AppRun&) { return 2; });
    }
    return exit_status_after_flush(program.name, program.measure(argc, argv));
  } catch (...) {
    const Error error = current_error();
    say(stderr, "{}\n",
        wrapped_for_terminal(STDERR_FILENO, fmt::format("{}: {}", program.name, error.message())));
    return error.code() == ErrorCode::kInvalidArgument ? 2 : 1;
  }
}

int run_until_signal(const std::function<int(const std::stop_token&)>& work) {
  std::stop_source stop;
  actors::EndRequestFilter requests(false);
  // A second signal ends the process at once. Its child processes detect that and exit too.
  const actors::SignalHandler signals([&](const actors::ReceivedSignal& signal) {
    if (!signal.asks_to_end()) return;
    if (requests.add(signal, SteadyClock().now()) == actors::EndRequestFilter::Kind::kSecond)
      ::_exit(actors::kInterrupted);
    stop.request_stop();
  });
  try {
    return work(stop.get_token());
  } catch (const Error&) {
    if (stop.stop_requested()) return actors::kInterrupted;
    throw;
  }
}

std::filesystem::path find_hosts_tool(bool loopback, const std::string& consequence,
                                      std::FILE* terminal) {
  auto tool = actors::program_directory() / "weft-hosts";
  const std::string refusal =
      loopback ? "asked for with --loopback" : TestHosts::unsupported_because(tool);
  if (refusal.empty()) return tool;
  say(terminal, "Running on this machine's loopback: {} ({})\n", consequence, refusal);
  return {};
}

}  // namespace weft::apps
