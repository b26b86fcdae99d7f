#pragma once

namespace trainer::train {

/// From now on SIGTERM and SIGINT only leave a note, which the loop reads after each update.
void note_stop_signals();

/// The signal that asked this rank to stop, or 0.
int stop_signal();

}  // namespace trainer::train
