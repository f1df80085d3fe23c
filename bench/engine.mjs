// Measures the latency of hot runs and creates through the engine, without HTTP or a server.
import { newSandboxId } from '@dormouse/contracts'
import { measure, report, summarize, timesTable } from './measure.mjs'
import { atWorkbench, python, readOptions, timed } from './workbench.mjs'

const options = readOptions()
/** A quick run divides the number of runs and creates by this. */
const share = options.quick ? 20 : 1
const request = () => ({ sandboxId: newSandboxId(), template: 'python' })

async function measureHotRuns({ engine }) {
  const burrow = await engine.createBurrow(request())
  const run = (code, language) => () => burrow.guest.runs.run({ code, language })
  const hot = ({ warmUp, times, work }) =>
    measure({ warmUp: warmUp / share, times: Math.ceil(times / share), work })
  const rows = [
    {
      title: 'hot run, `print(1)`',
      ...(await hot({ warmUp: 200, times: 2000, work: run('print(1)') })),
      goal: { atMost: 1 },
    },
    { title: 'hot run, an expression', ...(await hot({ warmUp: 50, times: 500, work: run('40 + 2') })) },
    { title: 'bash, `echo 1`', ...(await hot({ warmUp: 20, times: 200, work: run('echo 1', 'bash') })) },
  ]
  await burrow.destroy()
  return rows
}

/** Creates without a pause, so that the spares cannot keep up. */
async function measureCreates({ engine, pause }) {
  const created = []
  const answered = []
  const destroyed = []
  for (let i = 0; i < Math.ceil(40 / share); i++) {
    await pause(0)
    const create = await timed(() => engine.createBurrow(request()))
    const answer = await timed(() => python(create.result, 'print(1)'))
    const destroy = await timed(() => create.result.destroy())
    created.push(create.ms)
    answered.push(create.ms + answer.ms)
    destroyed.push(destroy.ms)
  }
  return [
    { title: 'create without a pause, until the agent answers', ...summarize(created) },
    { title: 'create without a pause, to the first result', ...summarize(answered) },
    { title: 'destroy', ...summarize(destroyed) },
  ]
}

const result = await atWorkbench(options, async (bench) => [
  ...(await measureHotRuns(bench)),
  ...(await measureCreates(bench)),
])
await report({ name: 'engine', options, result, text: timesTable(result) })
