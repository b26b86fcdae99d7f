#pragma once

namespace trainer {

/// From now on, the end of main() and exit() run the handlers that are registered later, write out stdio and end the
/// process: globals that exist by now are not destroyed. libtorch takes a tenth of a second to take its table of
/// operators apart. Does nothing under sanitizers, which look for leaks afterwards.
void end_without_destroying_globals();

}  // namespace trainer
