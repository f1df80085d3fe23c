/** Timers of Node end at 25 days, and run on another clock than the one that is set and stepped. */
const LOOK_MS = 60_000

/** Does it when the wall clock says so, unless the returned function is called before. Keeps no process alive. */
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
