/** Node's timers are limited to 25 days and do not follow changes of the wall clock. */
const LOOK_MS = 60_000

/**
 * Calls `act` when the wall clock reaches `timeMs`, unless the returned function is called before. Does not keep the
 * process alive.
 */
export function setWallClockTimer(timeMs: number, act: () => void): () => void {
  let timer: NodeJS.Timeout
  const look = () => {
    const leftMs = timeMs - Date.now()
    if (leftMs <= 0) act()
    else timer = setTimeout(look, Math.min(leftMs, LOOK_MS)).unref()
  }
  look()
  return () => clearTimeout(timer)
}
