// Writes src/contract from the HTTP contract: node packages/sdk/tools/make-contract.mjs
// The SDK is published without the packages around it, so it has the types that it uses of the contract itself, as the
// compiler sees them.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const sdk = fileURLToPath(new URL('..', import.meta.url))
const root = join(sdk, '../..')
const http = join(sdk, '../contracts/src/http')
const target = join(sdk, 'src/contract')
const NOTE = '// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.\n'

/** The files of src/contract by name, as they should be. */
export function makeContract() {
  const homes = moduleOfEachType()
  const types = expand(usedTypes())
  for (const name of types.keys()) if (!homes.has(name)) throw new Error(`the contract has no type ${name}`)
  const named = nameParts(types)
  const modules = [...new Set([...named.keys()].map((name) => homes.get(name)))].sort()
  const files = new Map()
  for (const module of modules) {
    const own = [...named].filter(([name]) => homes.get(name) === module)
    const body = own.map(([name, text]) => `export type ${name} = ${text}\n`).join('\n')
    const foreign = [...named.keys()].filter(
      (name) => homes.get(name) !== module && new RegExp(`\\b${name}\\b`).test(body),
    )
    const imports = foreign.map((name) => `import type { ${name} } from './${homes.get(name)}.ts'\n`).join('')
    files.set(`${module}.ts`, format(`${NOTE}${imports}\n${body}`))
  }
  const list = modules.map((module) => {
    const own = [...named.keys()].filter((name) => homes.get(name) === module)
    return `export type { ${own.sort().join(', ')} } from './${module}.ts'\n`
  })
  files.set('index.ts', format(`${NOTE}${list.join('')}`))
  return files
}

function moduleOfEachType() {
  const homes = new Map()
  for (const file of readdirSync(http))
    for (const [, name] of readFileSync(join(http, file), 'utf8').matchAll(/^export type (\w+) =/gm))
      homes.set(name, file.replace(/\.ts$/, ''))
  return homes
}

function usedTypes() {
  const names = new Set()
  const sources = readdirSync(join(sdk, 'src'), { recursive: true }).filter((path) => path.endsWith('.ts'))
  for (const file of sources)
    for (const [, list] of readFileSync(join(sdk, 'src', file), 'utf8').matchAll(
      /^import type \{([^}]*)\} from '[./]+\/contract\/index\.ts'$/gm,
    ))
      for (const name of list.split(',')) if (name.trim() !== '') names.add(name.trim())
  return [...names].sort()
}

/** What the compiler makes of each: a declaration has types spelled out that an alias would hide. */
function expand(names) {
  const directory = mkdtempSync(join(sdk, '.contract-'))
  try {
    const probe = join(directory, 'probe.ts')
    const lines = names.map((name) => `export const ${name} = expand<http.${name}>()`)
    writeFileSync(
      probe,
      `import type * as http from '@dormouse/contracts/http'
type Expand<T> = T extends infer O ? { [K in keyof O]: O[K] } : never
declare function expand<T>(): Expand<T>
${lines.join('\n')}\n`,
    )
    const flags = '--ignoreConfig --declaration --emitDeclarationOnly --strict --exactOptionalPropertyTypes'
    const more = '--target es2023 --module nodenext --customConditions dormouse-source --skipLibCheck'
    const args = [...`${flags} ${more} --allowImportingTsExtensions --types node`.split(' ')]
    execFileSync(process.execPath, [tool('typescript/bin/tsc'), ...args, '--outDir', directory, probe], {
      cwd: root,
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    const declaration = readdirSync(directory, { recursive: true }).find((path) =>
      path.endsWith('probe.d.ts'),
    )
    const text = readFileSync(join(directory, declaration), 'utf8')
    const found = text.matchAll(/^export declare const (\w+): ([\s\S]*?);$(?=\n^export|\n*$(?![\s\S]))/gm)
    return new Map([...found].map(([, name, type]) => [name, type.replaceAll(/\s+/g, ' ')]))
  } finally {
    rmSync(directory, { recursive: true })
  }
}

/** A type that is a part of another is called by its name there. */
function nameParts(types) {
  const parts = [...types]
    .filter(([, text]) => text.startsWith('{'))
    .sort((a, b) => b[1].length - a[1].length)
  return new Map(
    [...types].map(([name, text]) => {
      let whole = text
      for (const [part, inner] of parts)
        if (part !== name && inner !== text) whole = whole.replaceAll(inner, part)
      return [name, whole]
    }),
  )
}

function format(text) {
  const file = join(target, 'any.ts')
  return execFileSync(
    process.execPath,
    [tool('@biomejs/biome/bin/biome'), 'check', '--write', `--stdin-file-path=${file}`],
    { input: text, cwd: root, encoding: 'utf8' },
  )
}

function tool(path) {
  return join(root, 'node_modules', path)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const files = makeContract()
  rmSync(target, { recursive: true, force: true })
  mkdirSync(target)
  for (const [name, text] of files) {
    writeFileSync(join(target, name), text)
    console.log(relative(root, join(target, name)))
  }
}
