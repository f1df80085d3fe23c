import { guestToolsDir } from '../../packages/engine-linux/dist/guest-tools.js'
import { moveMemory } from '../../packages/engine-linux/dist/snapshot/move-memory.js'
import { median, ms, summarize, timesTable } from '../measure.mjs'
import { python, timed } from '../workbench.mjs'
import { copyToFile } from './control.mjs'
import { checkContent, growTree } from './tree.mjs'

const failures = {
  report: (_kind, error) => {
    throw error
  },
}

/** Moves memory of a burrow that is awake, and calls it all the while. Control: the same calls before. */
export async function measureAlive(bench, { heapBytes, times }) {
  const samples = { control: [], whole: [], pauses: [], calls: [], idleCalls: [], movedBytes: [] }
  for (let i = 0; i < times; i++) {
    const burrow = await growTree(bench.engine, heapBytes)
    const call = async () => (await timed(() => python(burrow, 'print(1)'))).ms
    await bench.pause()
    for (let k = 0; k < 50; k++) samples.idleCalls.push(await call())
    samples.control.push(copyToFile(bench.layout.snapshotsDir, heapBytes))
    await bench.pause(2000)
    let isOver = false
    const toolsDir = guestToolsDir(bench.dataDir, burrow.record.tools)
    const moving = timed(() => moveMemory(burrow, { toolsDir, failures })).finally(() => {
      isOver = true
    })
    while (!isOver) samples.calls.push(await call())
    const { ms: whole, result } = await moving
    samples.whole.push(whole)
    samples.pauses.push(...result.pausesMs)
    samples.movedBytes.push(result.movedBytes)
    await checkContent(burrow)
    await burrow.destroy()
  }
  return {
    pause: { ...summarize(samples.pauses), goal: { atMost: 10 } },
    call: summarize(samples.calls),
    idleCall: summarize(samples.idleCalls),
    whole: summarize(samples.whole),
    control: summarize(samples.control),
    movedBytes: median(samples.movedBytes),
  }
}

export function describeAlive({ pause, call, idleCall, whole, control }) {
  return [
    'Moving 1 GB into its memory file while the sandbox is awake and is called all the time:',
    '',
    timesTable([
      { title: 'pause for a piece of 8 MB', ...pause },
      { title: 'a call meanwhile', ...call },
      { title: 'the same call before', ...idleCall },
      { title: 'all of it, with those calls', ...whole },
      { title: 'control: copying 1 GB once to a new file in the page cache', ...control },
    ]),
    '',
    `All of it takes ${(whole.p50 / control.p50).toFixed(1)} × the control; the longest pause was ${ms(pause.max)} ms.`,
  ].join('\n')
}
