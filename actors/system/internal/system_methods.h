#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/message/message.h"
#include "actors/system/context.h"
#include "actors/system/survey.h"
#include "core/base/secret.h"
#include "core/codec/codec.h"

namespace weft::actors {

/// Methods that the system itself answers, as the actor with id 0.
enum class SystemMethod : std::uint32_t {
  kSpawn = 0,
  kStop = 1,
  kReport = 2,
  kToken = 3,
  kSurvey = 4,
  kLocate = 5,  ///< Argument: a lost ActorAddress; answered by its owner with the present one.
  kExited = 6,  ///< Argument: ActorExit; sent one-way to the owner of an actor that ended itself.
  // Calls that travel a tree: relay_messages.h. The last three are one-way.
  kRelay = 7,
  kRelayChunk = 8,
  kRelayCancel = 9,
  kRelayResults = 10,
  kDecide = 11,      ///< Argument: DecisionRequest; answered with an encoded OnFailure.
  kStopActors = 12,  ///< Argument: StopRequest; answered when the actors have ended.
};

/// Actors of one mesh that their process stops, though it goes on. Arguments of kStopActors.
struct StopRequest {
  std::string mesh;  ///< All its actors that the caller owns, or whose owner is not connected.
  std::string label = {};  ///< If not empty: the one with this label alone.
  /// True if another incarnation follows: calls that were not started wait for it.
  bool is_restart = false;
  /// Latest epoch of the mesh in which they were spawned (RestartInfo::epoch); 0: any.
  std::uint64_t epoch = 0;
  static constexpr auto fields = weft::fields(&StopRequest::mesh, &StopRequest::label,
                                              &StopRequest::is_restart, &StopRequest::epoch);
};

/// Arguments of a spawn: a call of actor 0, method kSpawn.
struct SpawnRequest {
  std::string interface;
  std::uint32_t version = 0;
  std::uint64_t fingerprint = 0;
  std::string label;
  MeshPosition place;
  std::vector<std::byte> arguments;
  bool adopt_existing = false;  // adopts the actor of that label instead of spawning one
  RestartInfo restart = {};
  ActorThread thread = ActorThread::kOwn;
  static constexpr auto fields =
      weft::fields(&SpawnRequest::interface, &SpawnRequest::version, &SpawnRequest::fingerprint,
                   &SpawnRequest::label, &SpawnRequest::place, &SpawnRequest::arguments,
                   &SpawnRequest::adopt_existing, &SpawnRequest::restart, &SpawnRequest::thread);
};

/// Actor that ended itself (Context::exit), and why.
struct ActorExit {
  ActorAddress actor;
  std::string reason;
  static constexpr auto fields = weft::fields(&ActorExit::actor, &ActorExit::reason);
};

/// Question to an actor's decider, added by Context::add_decider().
struct DecisionRequest {
  ActorId actor;
  std::uint64_t decider = 0;
  std::vector<std::byte> incident;  ///< Encoded Incident.
  static constexpr auto fields =
      weft::fields(&DecisionRequest::actor, &DecisionRequest::decider, &DecisionRequest::incident);
};

/// Next token of a cluster, sent in a one-way call of kToken. The token of the highest generation
/// counts.
struct TokenMessage {
  std::uint64_t generation = 0;
  Secret::Bytes token{};
  static constexpr auto fields = weft::fields(&TokenMessage::generation, &TokenMessage::token);
};

/// Fingerprint of a survey's request and answer, in place of that of an interface: programs of
/// other builds have other fields.
inline constexpr std::uint64_t kSurveyFingerprint = mix_fingerprint(
    codec<SurveyRequest>::kFingerprint, codec<std::vector<ProcessSurvey>>::kFingerprint);
/// Method name of survey calls, which surveys do not list.
inline constexpr const char* kSurveyMethod = "survey";
/// Method name of the calls to relays, which surveys do not list either.
inline constexpr const char* kRelayMethod = "relay";

/// Returns a call of actor 0. It is urgent, as the system has no mailbox, and so no credit.
inline Call system_call(SystemMethod method, std::vector<std::byte> arguments) {
  Call call;
  call.urgent = true;
  call.method = static_cast<std::uint32_t>(method);
  call.arguments = std::move(arguments);
  return call;
}

/// Returns a survey call.
inline Call survey_call(const SurveyRequest& request) {
  Call call = system_call(SystemMethod::kSurvey, encode(request));
  call.interface_fingerprint = kSurveyFingerprint;
  return call;
}

/// Returns the address of a process's actor 0. Errors of calls name `label`.
inline std::shared_ptr<const ActorAddress> system_actor_of(ProcessRef process, std::string label) {
  return std::make_shared<const ActorAddress>(
      ActorAddress{std::move(process), ActorId(0), std::move(label)});
}

}  // namespace weft::actors
