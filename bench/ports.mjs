// Measures a server inside a sandbox, reached through a preview, against the same server on the host's loopback.
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { median, megabytes, ms, report, summarize, table, verdict } from './measure.mjs'
import { startControls } from './ports/controls.mjs'
import { download, load } from './ports/load.mjs'
import { measureWithWrk } from './ports/wrk.mjs'
import { requirePackages } from './require-packages.mjs'
import { atServer } from './server/at-server.mjs'
import { readOptions } from './workbench.mjs'

const options = readOptions({ seconds: { type: 'string' } })
requirePackages('wrk')
const PORT = 8000
const ROUNDS = options.quick ? 2 : 5
const ROUND_SECONDS = Math.max(1, Math.round(Number(options.seconds ?? (options.quick ? 2 : 10)) / ROUNDS))
const CLIENTS = 16
const program = fileURLToPath(new URL('ports/serve.py', import.meta.url))

const controls = await startControls()
try {
  await atServer(options, reportPorts)
} finally {
  await controls.end()
}

async function reportPorts({ client, server }) {
  const { id } = await client.create({ limits: { cpus: 2 } })
  const code = `import subprocess; open("/root/serve.py", "w").write(${JSON.stringify(await readFile(program, 'utf8'))}); subprocess.Popen(["python3", "/root/serve.py", "${PORT}"], stdout=subprocess.DEVNULL)`
  await client.run(id, code)
  await client.call('POST', `/v1/sandboxes/${id}/ports/${PORT}/wait`, {})
  const below = `/v1/sandboxes/${id}/ports/${PORT}`
  const on = (port) => ({ url: `http://127.0.0.1:${port}`, headers: {}, below: '' })
  const { direct, native, node } = controls.ports
  const result = await measure({
    preview: { url: server.url, headers: { authorization: `Bearer ${server.key}` }, below },
    direct: on(direct),
    'a relay in C that copies bytes': on(native),
    'a relay in Node that copies bytes': on(node),
    'direct, without keep-alive': { ...on(direct), keepAlive: false },
  })
  await report({ name: 'ports', options, result, text: describe(result) })
}

/** Measures the targets in turns, so that all see the same noise. */
async function measure(targets) {
  const found = Object.fromEntries(
    Object.keys(targets).map((name) => [name, { one: [], many: [], bytesPerSecond: [] }]),
  )
  for (let round = 0; round < ROUNDS + 1; round++) {
    for (const [name, target] of Object.entries(targets)) {
      const small = { ...target, path: `${target.below}/` }
      const one = await load({ ...small, clients: 1, ms: ROUND_SECONDS * 1000 })
      const many = await measureWithWrk({ ...small, connections: CLIENTS, seconds: ROUND_SECONDS })
      const bytesPerSecond = await download({ ...target, path: `${target.below}/big` })
      // The first round only warms up.
      if (round === 0) continue
      found[name].one.push(...one.samples)
      found[name].many.push(many)
      found[name].bytesPerSecond.push(bytesPerSecond)
    }
  }
  return Object.fromEntries(
    Object.entries(found).map(([name, { one, many, bytesPerSecond }]) => [
      name,
      {
        one: summarize(one),
        many: Object.fromEntries(
          ['perSecond', 'p50', 'p99'].map((key) => [key, median(many.map((round) => round[key]))]),
        ),
        bytesPerSecond: median(bytesPerSecond),
      },
    ]),
  )
}

function describe(result) {
  const rows = Object.entries(result).map(([name, { one, many, bytesPerSecond }]) => [
    name,
    ms(one.p50),
    ms(one.p99),
    Math.round(many.perSecond),
    ms(many.p50),
    ms(many.p99),
    megabytes(bytesPerSecond),
  ])
  const head = [
    ...[
      '1 KB from',
      'one client: p50 ms',
      'p99 ms',
      `wrk, ${CLIENTS} connections: requests/s`,
      'p50 ms',
      'p99 ms',
    ],
    'one large response: MB/s',
  ]
  return `${table(head, rows)}\n\n${describeGoals(result)} The clients, the Dormouse server and the server inside share the CPUs.`
}

function describeGoals({ preview, direct }) {
  const share = (preview.bytesPerSecond / direct.bytesPerSecond) * 100
  return [
    `Requests/s: ${verdict(preview.many.perSecond, { atLeast: 12_000 })}.`,
    `One client: ${verdict(preview.one.p50, { atMost: 0.5 }, 'ms')}.`,
    `Large response: ${share.toFixed(0)} % of direct, ${verdict(share, { atLeast: 70 }, '%')}.`,
  ].join(' ')
}
