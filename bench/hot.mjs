// Measures the server awake: hot runs compared with a plain ipykernel, and creates alone and in bursts.
import { readFile } from 'node:fs/promises'
import { report, timesTable, verdict } from './measure.mjs'
import { atServer } from './server/at-server.mjs'
import { measureBursts } from './server/bursts.mjs'
import { measureCreate, measureHot, PAUSE_MS } from './server/hot.mjs'
import { readOptions } from './workbench.mjs'

const options = readOptions()
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
    ...(hot.ipykernel ? [{ title: '… plain ipykernel with jupyter_client', ...hot.ipykernel }] : []),
    { title: `run after a pause of ${PAUSE_MS} ms, awake`, ...hot.paused },
    { title: 'create and first result', ...create, goal: { atMost: 12 } },
    { title: '… the first of ten in a row', ...bursts.first, goal: { atMost: 12 } },
    { title: '… the tenth', ...bursts.tenth, goal: { atMost: 12 } },
  ]
  const ratio = hot.ipykernel && hot.ipykernel.p50 / hot.ours.p50
  const compared = ratio
    ? `ipykernel / ours: ${ratio.toFixed(1)} (goal ${verdict(ratio, { atLeast: 4 })}). `
    : ''
  return `${timesTable(rows)}\n\n${compared}CPU time of the server per hot run: ${cpuMsPerRun.toFixed(2)} ms.`
}
