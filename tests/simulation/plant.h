#pragma once

namespace weft::simulation {

/// Injected bug that a check of the scenario must find.
enum class Plant {
  kNone,
  kLosesUpdate,         ///< All devices skip one update.
  kRunsStepTwice,       ///< The driver repeats a step as if its reply had been lost.
  kLosesWakeup,         ///< Some calls of wake() do nothing.
  kPublishesOldActors,  ///< A name leads to actors that are not there.
  kForgetsState,        ///< The disk reports syncs that it has not done.
  kFreesDevices,        ///< A host reports running processes as exited.
  kTellsNoCause,        ///< A failed run reports a symptom, not the cause.
  kKeepsOldState,       ///< After a death, surviving devices keep their newer state.
  kRunsCallTwice,       ///< A call that is not idempotent runs twice.
  kLosesCall,           ///< A call returns and has not run.
  kFormerActorServes,   ///< An earlier incarnation of an actor serves after a later one.
  kChildrenLiveOn,      ///< Children of an actor outlive it.
  kFreesUnderReaders,   ///< An object is freed while a process reads it.
  kReleasesTwice,       ///< An owner releases a reservation and goes on using it.
};

}  // namespace weft::simulation
