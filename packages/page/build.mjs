// Builds the page into dist: node packages/page/build.mjs
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { rolldown } from 'rolldown'

const page = dirname(fileURLToPath(import.meta.url))
const dist = join(page, 'dist')
const require = createRequire(import.meta.url)
/** Styles that libraries bring, then ours, in the order of their names. */
const STYLES = [require.resolve('@xterm/xterm/css/xterm.css'), require.resolve('uplot/dist/uPlot.min.css')]

mkdirSync(dist, { recursive: true })
for (const entry of readdirSync(dist, { withFileTypes: true }))
  if (entry.isFile()) rmSync(join(dist, entry.name))

const bundle = await rolldown({
  input: join(page, 'src/main.tsx'),
  platform: 'browser',
})
const { output } = await bundle.generate({
  format: 'es',
  minify: true,
  entryFileNames: 'main-[hash].js',
  chunkFileNames: '[name]-[hash].js',
})
await bundle.close()

const files = new Map(output.map((part) => [part.fileName, 'code' in part ? part.code : part.source]))
const main = output.find((part) => part.type === 'chunk' && part.isEntry)
const own = readdirSync(join(page, 'src/style')).sort()
const css = [...STYLES, ...own.map((name) => join(page, 'src/style', name))]
  .map((path) => readFileSync(path, 'utf8'))
  .join('\n')
  .replace(/\/\*[\s\S]*?\*\//g, '')
  .replace(/\n\s*/g, '\n')
const icon = readFileSync(join(page, 'src/icon.svg'), 'utf8')
const names = { css: hashed('style', css, 'css'), icon: hashed('icon', icon, 'svg') }
files.set(names.css, css)
files.set(names.icon, icon)
const html = readFileSync(join(page, 'src/index.html'), 'utf8')
  .replace('MAIN', main?.fileName ?? '')
  .replace('STYLE', names.css)
  .replace('ICON', names.icon)

for (const [name, content] of files) await write(name, content)
// Last: a page whose other files are missing is not there.
await write('index.html', html)

/**
 * @param {string} name
 * @param {string} content
 * @param {string} ending
 */
function hashed(name, content, ending) {
  return `${name}-${createHash('sha256').update(content).digest('base64url').slice(0, 8)}.${ending}`
}

/**
 * @param {string} name
 * @param {string | Uint8Array} content
 */
async function write(name, content) {
  const bytes = Buffer.from(content)
  const level = {
    params: { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length },
  }
  const [brotli, gzipped] = await Promise.all([
    promisify(brotliCompress)(bytes, level),
    promisify(gzip)(bytes),
  ])
  writeFileSync(join(dist, `${name}.br`), brotli)
  writeFileSync(join(dist, `${name}.gz`), gzipped)
  writeFileSync(join(dist, name), bytes)
}
