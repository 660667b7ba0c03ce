#include "actors/cluster/leaving_hosts.h"

#include <utility>

#include "actors/head/head.h"

namespace weft::actors {

void LeavingHosts::on_leave(std::function<void(const std::string& text)> saves) {
  const std::lock_guard lock(mutex_);
  saves_ = std::move(saves);
}

void LeavingHosts::add(const std::string& host, const std::string& text) {
  std::function<void(const std::string&)> saves;
  {
    const std::lock_guard lock(mutex_);
    hosts_.insert(host);
    saves = saves_;
  }
  if (saves) saves(text);
  else release();
}

void LeavingHosts::release() {
  std::set<std::string> hosts;
  {
    const std::lock_guard lock(mutex_);
    hosts.swap(hosts_);
  }
  for (const std::string& host : hosts) head_.tell<&Head::release_leaving_host>(host);
}

}  // namespace weft::actors
