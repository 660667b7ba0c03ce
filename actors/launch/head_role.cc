#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <memory>

#include "actors/head/head.h"
#include "actors/launch/last_words.h"
#include "actors/launch/process_end.h"
#include "actors/launch/roles.h"
#include "actors/launch/token.h"
#include "actors/supervision/signal_watch.h"
#include "actors/system/system.h"
#include "core/base/unblocked_output.h"

namespace weft::actors {
namespace {

/// How long the head waits after a bare end of file for the better evidence of a parent.
constexpr auto kEofGrace = std::chrono::milliseconds(25);
/// For hosts and owners that have been away for too long.
constexpr auto kLookForAwayEvery = std::chrono::seconds(1);

/// Who started the head gives the token to its children itself: without the file, other commands
/// alone find no token.
Secret token_of(const HeadRole& role, const Log& log) {
  if (role.token.empty()) return load_or_make_token(role.state_directory);
  try {
    write_token(role.state_directory, role.token);
  } catch (const Error& error) {
    log.warning("{}; the run goes on, and nobody else can ask this head", error.message());
  }
  return role.token;
}

/// What others know this head by; none where nobody is connected from elsewhere.
TlsIdentity identity_of(const HeadRole& role, const Log& log) {
  const Tls::Use use = role.insecure ? Tls::Use::kNever : Tls::Use::kBeyondLoopback;
  if (!Tls::is_due(use, role.listen.host)) return {};
  try {
    return load_or_make_identity(role.state_directory);
  } catch (const Error& error) {
    // The token of a run's own cluster is proof enough among its processes.
    if (role.token.empty()) throw;
    log.warning("{}; the run goes on with a certificate that nobody else knows", error.message());
    return {};
  }
}

/// The tokens that were replaced, by this head or an older one: members may prove them for the
/// grace of the head, and then they are forgotten.
class FormerTokens final {
 public:
  FormerTokens(System& system, const HeadRole& role) : system_(system), role_(role) {
    const auto found = read_former_tokens(role.state_directory);
    for (const FormerToken& former : found)
      system.take_former_token(former.token, role.grace, former.members);
    if (!found.empty()) forget_later();
  }
  void forget_later() const {
    const std::uint64_t mine = ++*count_;
    system_.after(role_.grace, [count = count_, mine, folder = role_.state_directory] {
      if (*count == mine) forget_former_tokens(folder);
    });
  }

 private:
  System& system_;
  const HeadRole& role_;
  // of those that are being waited for the last one counts; shared with what waits
  const std::shared_ptr<std::atomic<std::uint64_t>> count_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
};

/// Replaces the token of a head that runs. The file comes first: a head that dies now comes back
/// with the new one.
RotatedToken rotate(System& system, const HeadRole& role, std::vector<ProcessId> members) {
  for (const ProcessRef& peer : system.peers()) members.push_back(peer.id);
  add_former_token(role.state_directory, system.token(), members);
  const Secret next = Secret::random();
  write_token(role.state_directory, next);
  System::Replaced replaced = system.replace_token(next, role.grace, members);
  return {token_file_in(role.state_directory).string(),
          static_cast<std::uint32_t>(replaced.told.size()), std::move(replaced.not_told)};
}

}  // namespace

int serve_head(const HeadRole& role) {
  const UnblockedOutput output;
  ProcessEnd end;
  // The first signal stops the cluster in good order, so that owners and hosts hear why; the second
  // ends the process.
  std::atomic<System*> running = nullptr;
  std::atomic<bool> asked = false;
  const SignalWatch signals([&](const ReceivedSignal& signal) {
    const std::string reason = "the head was stopped by " + signal.describe();
    System* const system = running;
    if (system == nullptr || asked.exchange(true)) return end.set(0, reason);
    system->named<Head>(system->self(), "head").tell<&Head::stop>(reason);
  });
  const Log log = Log::standard_output(role.log_level);
  SystemOptions options;
  options.name = "head";
  options.token = token_of(role, log);
  options.makes_tokens = true;
  options.eof_grace = kEofGrace;
  options.io_share = ThreadShare::kControl;
  options.log = log;
  options.identity = identity_of(role, log);
  if (role.insecure) {
    options.tls = Tls::Use::kNever;
    warn_of_insecure(log);
  }
  System system(options);
  const FormerTokens former(system, role);
  system.on_refused([&system](const std::string& text) {
    system.named<Head>(system.self(), "head").tell<&Head::refused>(text);
  });
  system.on_peer_lost([&system](const ProcessRef& peer, const Error&, Loss how) {
    system.named<Head>(system.self(), "head").tell<&Head::peer_lost>(peer.id, how == Loss::kCutOff);
  });
  system.on_peer_silent([&system](const ProcessRef& peer, Nanoseconds silence) {
    system.named<Head>(system.self(), "head")
        .tell<&Head::peer_silent>(peer.id, std::int64_t{silence.count()});
  });
  system.on_peer_quiet([&system](const ProcessRef& peer, std::optional<Nanoseconds> silence) {
    system.named<Head>(system.self(), "head")
        .tell<&Head::peer_quiet>(peer.id, silence ? std::int64_t{silence->count()} : -1);
  });
  const Address address = system.listen(role.listen);
  const HeadEvents events{[log](const ClusterEvent& event) { log.info("{}", event.text); },
                          [log](const std::string& warning) { log.warning("{}", warning); },
                          [&end](const std::string& reason) { end.set(0, reason); },
                          [&](const std::vector<ProcessId>& members) {
                            RotatedToken rotated = rotate(system, role, members);
                            former.forget_later();
                            return rotated;
                          }};
  system.host_made<Head>("head", [&](Context& context) {
    return std::make_unique<Head>(
        context, HeadConfig{address, role.state_directory, role.grace, role.begins_anew}, events);
  });
  system.every(kLookForAwayEvery,
               [&system] { system.named<Head>(system.self(), "head").tell<&Head::look>(); });
  running = &system;
  const std::unique_ptr<std::atomic<System*>, void (*)(std::atomic<System*>*)> stopped(
      &running, [](std::atomic<System*>* ended) { *ended = nullptr; });
  const std::filesystem::path token_file = token_file_in(role.state_directory);
  const TokenLink link(address.port, token_file, log);
  if (role.on_listening)
    role.on_listening(address, token_file,
                      options.identity.empty()
                          ? ""
                          : tls_library().certificate_sha256(options.identity.certificate));
  if (!role.said.empty()) leave_last_words(role.said, std::string(kListensAt) + to_string(address));
  const auto reason = end.wait();
  log.info("head ends: {}", reason.text);
  return reason.status;
}

}  // namespace weft::actors
