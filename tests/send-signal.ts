/** Refuses 0, which is the group of the tests themselves: the number of a process that was read from an empty file. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  if (!(pid > 1)) throw new Error(`There is no process to send ${signal} to: ${pid}.`)
  process.kill(pid, signal)
}
