// Measures the server awake: hot runs compared with a plain ipykernel, and creates alone and in bursts.
import { readFile } from 'node:fs/promises'
import { ms, report, summarize, timesTable, verdict } from './measure.mjs'
import { requirePackages } from './require-packages.mjs'
import { atServer } from './server/at-server.mjs'
import { measureBursts } from './server/bursts.mjs'
import { measureCreate, measureHot, PAUSE_MS } from './server/hot.mjs'
import { readOptions } from './workbench.mjs'

const options = readOptions()
requirePackages('python3-ipykernel', 'python3-jupyter-client')
const times = options.quick
  ? { runs: 200, pauses: 5, creates: 5, bursts: 2 }
  : { runs: 2000, pauses: 30, creates: 30, bursts: 5 }

await atServer(options, async ({ client, server }) => {
  const before = await cpuMs(server)
  const hot = await measureHot(client, times)
  // The runs that warm up count here too.
  const cpuMsPerRun = ((await cpuMs(server)) - before) / (1.5 * times.runs + times.pauses)
  const create = await measureCreate(client, { count: times.creates })
  const bursts = await measureBursts({ client, bursts: times.bursts })
  const result = { hot, cpuMsPerRun, create, bursts }
  await report({ name: 'hot', options, result, text: describe(result) })
})

/** Of the server's process: user and system. */
async function cpuMs(server) {
  const fields = (await readFile(`/proc/${server.child.pid}/stat`, 'utf8')).split(') ')[1].split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

function describe({ hot, cpuMsPerRun, create, bursts }) {
  const rows = [
    { title: 'hot run, `print(1)`', ...hot.ours, goal: { atMost: 1.2 } },
    { title: '… plain ipykernel with jupyter_client', ...hot.ipykernel },
    { title: `run after a pause of ${PAUSE_MS} ms, awake`, ...hot.paused },
    { title: 'create and first result', ...create, goal: { atMost: 12 } },
    {
      title: '… ten in a row, for the first time since the start: all of them',
      ...summarize(bursts.earliest),
    },
    { title: '… the first of ten in a row, after a burst before', ...bursts.first, goal: { atMost: 12 } },
    { title: '… the tenth', ...bursts.tenth, goal: { atMost: 12 } },
  ]
  const ratio = hot.ipykernel.p50 / hot.ours.p50
  const compared = `ipykernel / ours: ${ratio.toFixed(1)} (goal ${verdict(ratio, { atLeast: 4 })}).`
  const server = `CPU time of the server per hot run: ${cpuMsPerRun.toFixed(2)} ms.`
  return `${timesTable(rows)}\n\n${compared} ${server}\n\n${describeEarliest(bursts.earliest)}`
}

function describeEarliest(samples) {
  return `The ten of the earliest burst took ${samples.map(ms).join(', ')} ms. Until then the reserve holds two sandboxes, so later creates of that burst wait for a restore. Then it follows demand ([decision 61](decisions/0061-the-reserve-follows-demand.md)): the other rows are from the bursts after it.`
}
