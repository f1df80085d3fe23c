// Pulls an image of 300 MB in 8 layers from a registry on loopback and compares it with `skopeo copy` plus unpacking;
// uses its layers again; builds again after a change; compares create from an image with create from the built-in.
// Needs docker-registry, skopeo and busybox-static, which `./dormouse test` installs.
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { LinuxEngine } from '@dormouse/engine-linux'
import {
  copyAndUnpack,
  makeBusyboxLayer,
  makeLayer,
  pushImage,
  run,
  startRegistry,
} from './images/make-image.mjs'
import { untilInterrupted } from './interruption.mjs'
import { median, megabytes, ms, report, summarize, table, verdict } from './measure.mjs'
import { requirePackages } from './require-packages.mjs'
import { atServer } from './server/at-server.mjs'
import { readOptions, timed } from './workbench.mjs'

const options = readOptions({ megabytes: { type: 'string', default: '300' } })
requirePackages('skopeo', 'docker-registry', 'busybox-static')
const LAYERS = 8
const ROUNDS = options.quick ? 1 : 5
const CREATES = options.quick ? 5 : 30
const PORT = 17_599
/** The reserve restores sandboxes ahead of need; after this pause it has. */
const PAUSE_MS = 1_000

const engine = await LinuxEngine.open({ dataDir: options.data })
const isPrepared = await engine.isTemplatePrepared('python')
await engine[Symbol.asyncDispose]()
if (!isPrepared) throw new Error('The template has no snapshot for this build. Run `./dormouse up` once.')

const work = mkdtempSync(join(options.data, 'bench-images-'))
const registry = await startRegistry(work, PORT)
await untilInterrupted(
  async () => {
    const image = `${registry.host}/big:1`
    const base = makeBusyboxLayer(work)
    const others = Array.from({ length: LAYERS - 1 }, (_, at) =>
      makeLayer(work, `layer-${at}`, Number(options.megabytes) / (LAYERS - 1)),
    )
    const compressedBytes = pushImage(work, image, [base, ...others])
    const rounds = []
    for (let round = 0; round < ROUNDS; round += 1) rounds.push(await measureRound(image, round))
    const of = (name) => rounds.map((one) => one[name])
    const result = {
      ...{ compressedBytes, control: of('control'), template: of('template'), imported: of('imported') },
      ...{ again: of('again'), importedAgain: of('importedAgain'), rebuild: of('rebuild') },
      creates: rounds.at(-1).creates,
    }
    await report({ name: 'images', options, result, text: describe(result) })
  },
  async () => {
    registry.child.kill('SIGKILL')
    rmSync(work, { recursive: true, force: true })
  },
)

/**
 * Every round has a server that knows no layer yet. The kernel slows programs down that write while much is unwritten,
 * so neither side starts with what the other one left to write.
 */
async function measureRound(image, round) {
  run('sync')
  const control = await timed(() => copyAndUnpack(work, image))
  control.result()
  const config = { images: { registriesConf: registry.conf } }
  const measured = await atServer(options, ({ server }) => measureBuilds(server, { image, round }), config)
  return { control: control.ms, ...measured }
}

async function measureBuilds(server, { image, round }) {
  run('sync')
  const first = await build(server, { name: 'first', image })
  const again = await build(server, { name: 'again', image })
  const dockerfile = `FROM ${image}\nRUN echo expensive > /expensive\nCOPY app.txt /app.txt\n`
  const context = (text) => upload(server, tarOf('app.txt', text))
  await build(server, { name: 'app', dockerfile, context: await context('1') })
  await call(server, '/v1/templates/app', { method: 'DELETE' })
  const changed = { name: 'app', dockerfile, context: await context('2') }
  const rebuild = await build(server, changed)
  const isLast = round === ROUNDS - 1
  return {
    ...{ template: first.ms, imported: first.importMs, again: again.ms },
    ...{ importedAgain: again.importMs, rebuild: rebuild.ms },
    creates: isLast ? await measureCreates(server, image) : undefined,
  }
}

/** In turns: a sandbox of the built-in template, and one of an image with a server that is already running. */
async function measureCreates(server, image) {
  const preloaded = { name: 'web', image, start: 'exec httpd -f -p 8000 -h /', ready: { port: 8000 } }
  await build(server, preloaded)
  const found = { python: [], web: [] }
  for (let round = 0; round < CREATES + 2; round += 1)
    for (const template of ['python', 'web']) {
      await sleep(PAUSE_MS)
      const { ms: tookMs, result } = await timed(() => call(server, '/v1/sandboxes', { json: { template } }))
      await call(server, `/v1/sandboxes/${result.id}`, { method: 'DELETE' })
      // The reserve learns which templates are wanted.
      if (round >= 2) found[template].push(tookMs)
    }
  return { python: summarize(found.python), web: summarize(found.web) }
}

/** Builds a template and waits for the end of its log. */
async function build(server, template) {
  const began = performance.now()
  await call(server, '/v1/templates', { json: template })
  const log = await request(server, `/v1/templates/${template.name}/log`)
  const text = await log.text()
  let { state, error } = await call(server, `/v1/templates/${template.name}`)
  while (state === 'building') ({ state, error } = await call(server, `/v1/templates/${template.name}`))
  const tookMs = performance.now() - began
  if (state !== 'ready') throw new Error(`${template.name}: ${error}`)
  return { ms: tookMs, importMs: Number(/imported in ([\d.]+) s/.exec(text)?.[1] ?? 0) * 1000 }
}

function request({ url, key }, path, { json, body, method } = {}) {
  const headers = { authorization: `Bearer ${key}`, ...(json && { 'content-type': 'application/json' }) }
  const content = json ? JSON.stringify(json) : body
  return fetch(url + path, { method: method ?? (content ? 'POST' : 'GET'), headers, body: content })
}

async function call(server, path, more) {
  const answer = await request(server, path, more)
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text}`)
  return text === '' ? undefined : JSON.parse(text)
}

async function upload(server, body) {
  return (await call(server, '/v1/uploads', { body, method: 'POST' })).id
}

/** A tar archive of one small file. */
function tarOf(path, text) {
  const header = Buffer.alloc(512)
  const octal = (value, at, length) => header.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at)
  header.write(path, 0)
  octal(0o644, 100, 8)
  octal(0, 108, 8)
  octal(0, 116, 8)
  octal(text.length, 124, 12)
  octal(0, 136, 12)
  header.write('        ', 148)
  header.write('0', 156)
  header.write('ustar\x0000', 257, 'latin1')
  octal(
    header.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  )
  return Buffer.concat([header, Buffer.from(text.padEnd(512, '\0')), Buffer.alloc(1024)])
}

function describe({ compressedBytes, creates, ...found }) {
  const seconds = (values) => (median(values) / 1000).toFixed(2)
  const all = (values) => values.map((value) => (value / 1000).toFixed(2)).join(', ')
  const row = (title, values, goal) => [title, seconds(values), all(values), goal]
  // Within a round: the disk of a virtual machine is not equally fast at all times.
  const ratio = median(found.template.map((value, round) => value / found.control[round]))
  const atMost = (values, limit) => verdict(Number(seconds(values)), { atMost: limit }, 's')
  const times = [
    row('`skopeo copy` and `tar -x` of every layer', found.control),
    row('pull, unpack and start: a template', found.template, verdict(ratio, { atMost: 1.5 }, '× that')),
    row('… the pull and the unpacking alone', found.imported),
    row('the same layers again: the import', found.importedAgain, atMost(found.importedAgain, 1)),
    row('… and the start', found.again),
    row('rebuild after a change of the last `COPY`', found.rebuild, atMost(found.rebuild, 5)),
  ]
  const compared = creates.web.p50 / creates.python.p50
  return `An image of ${options.megabytes} MB in ${LAYERS} layers, ${megabytes(compressedBytes)} MB compressed; the
template takes ${ratio.toFixed(2)} times as long as copying and unpacking by hand (the median of the rounds).

${table(['what', 'median s', 'samples s', 'goal'], times)}

Create from a preloaded image (a static server is running in it) takes ${ms(creates.web.p50)} ms (p99
${ms(creates.web.p99)}), from the built-in template ${ms(creates.python.p50)} ms (p99 ${ms(creates.python.p99)}):
${compared.toFixed(2)} times as long. In turns, ${creates.web.times} each, over HTTP.`
}
