#pragma once

// A standard header comes before Asio's in every file: Asio looks at a macro of libstdc++ to choose
// its allocator, and sources that disagree free with one what they took with the other.
#include "actors/net/event_loop.h"

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>

#include "core/base/thread.h"

namespace weft::actors {

/// The Asio side of an EventLoop, seen by actors/net alone.
struct EventLoop::Impl {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  Thread thread;
};

}  // namespace weft::actors
