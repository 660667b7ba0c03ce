#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "actors/agent/agent.h"
#include "actors/launch/internal/time_limits.h"
#include "actors/launch/process_end.h"
#include "actors/launch/roles.h"
#include "actors/launch/token.h"
#include "actors/supervision/signal_watch.h"
#include "actors/system/system.h"

namespace weft::actors {

int serve_device(const RoleArguments& arguments, const std::function<void(System&)>& provide) {
  ProcessEnd end;
  const SignalWatch signals([&end](int) { end.set(0, "stopped by its agent"); });
  const Address agent_address = Address::parse(arguments.get("agent"));
  const std::string& label = arguments.get("label");
  SystemOptions options;
  options.name = label;
  options.token = inherited_token(arguments);
  const char* level = std::getenv(kLogLevelVariable);
  const Log log = Log::standard_output(level == nullptr ? LogLevel::kInfo : parse_log_level(level));
  options.log = log;
  options.binary_hash = arguments.get_or("sha256", "");  // of this very file, as the agent has just checked
  options.binary_name = std::filesystem::read_symlink("/proc/self/exe").filename().string();
  System system(options);
  provide(system);
  // The parent-death signal usually comes first. Whatever the handlers are doing, nobody waits for them any more.
  std::atomic<std::uint64_t> agent_id{0};
  system.on_peer_suspect([&agent_id, &label, &log](const ProcessRef& peer) {
    if (peer.id.value() != agent_id) return;
    log.error("{}: the agent is gone, so this process ends", label);
    ::_exit(1);
  });
  system.listen({agent_address.host, 0});
  const ProcessRef agent_process = system.connect(agent_address, internal::kConnectWithin);
  agent_id = agent_process.id.value();
  system.named<Agent>(agent_process, "agent").call<&Agent::ready>(arguments.number("slot")).get();
  log.info("{}: ready (pid {}, agent at {})", label, ::getpid(), to_string(agent_address));
  const auto reason = end.wait();
  log.info("{}: {}", label, reason.text);
  return reason.status;
}

}  // namespace weft::actors
