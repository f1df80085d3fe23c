import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const sources = join(root, 'packages/sdk/src')

/** The parameters and options of each method; undefined for properties. */
export type Members = Readonly<Record<string, readonly string[] | undefined>>

export interface TypeScriptSurface {
  /** By class. `constructor` and `static …` are members too. */
  readonly classes: Readonly<Record<string, Members>>
  /** The fields of each type; of a union, those of all its members. */
  readonly fields: Readonly<Record<string, readonly string[]>>
}

/**
 * What the compiler sees, with all that is inherited, picked or left out. Names of parameters are in no type, but the
 * compiler writes them into declarations; names of options are put there as types. `limits.cpus` is an option of an
 * option.
 */
const PROBE = `
type Defined<T> = Exclude<T, null | undefined>
type Call = (...given: never[]) => unknown
type Class = abstract new (...given: never[]) => unknown
type Whole = Iterable<unknown> | Call | Class | EventTarget | Blob | ArrayBuffer | Dormouse | TemplateBuilder
type HasKeys<T> = [T] extends [Whole] ? false : [T] extends [object] ? (string extends keyof T ? false : true) : false
type Keys<T> = T extends unknown ? keyof T & string : never
type Single<T> = Exclude<Defined<T>, readonly unknown[]>
type Inner<T, K extends Keys<T>> = HasKeys<Single<T[K]>> extends true ? \`\${K}.\${Keys<Single<T[K]>>}\` : K
type Paths<T> = { [K in Keys<T>]: Inner<T, K> }[Keys<T>]
type Of<T> = HasKeys<Defined<T>> extends true ? \`.\${Paths<Defined<T>>}\` : 0
type Overloads<F> = F extends { (...first: infer A): unknown; (...last: infer B): unknown } ? [...A, ...B] : never
declare function members<T>(): T extends infer O
  ? { [K in keyof O as K extends string ? K : never]: O[K] extends Call
      ? Overloads<O[K]> extends infer P ? { [I in keyof P]-?: Of<P[I]> } : never
      : 0 }
  : never
declare function made<T>(): T extends abstract new (...given: infer P) => unknown ? { [I in keyof P]-?: Of<P[I]> } : never
declare function keys<T>(): \`.\${Keys<Defined<T>>}\`
`

/** `expressions` are types such as `sdk.RaceEntry` or `contract.WhyAnswer['work'][number]`. */
export function typeScriptSurface(expressions: readonly string[]): TypeScriptSurface {
  const homes = classesBelow(sources)
  const directory = mkdtempSync(join(tmpdir(), 'dormouse-surface-'))
  try {
    const probe = join(directory, 'probe.ts')
    writeFileSync(
      probe,
      [
        ...[...homes].map(([name, file]) => `import type { ${name} } from '${join(sources, file)}'`),
        `import type * as sdk from '${join(sources, 'index.ts')}'`,
        `import type * as contract from '${join(sources, 'contract/index.ts')}'`,
        PROBE,
        ...[...homes.keys()].flatMap((name) => [
          `export const members_${name} = members<${name}>()`,
          `export const static_${name} = members<typeof ${name}>()`,
          `export const made_${name} = made<typeof ${name}>()`,
        ]),
        ...expressions.map((expression, index) => `export const keys_${index} = keys<${expression}>()`),
        'export const last = 0',
      ].join('\n'),
    )
    const declared = declarationsOf(probe, directory)
    const classes = [...homes.keys()].map((name): [string, Members] => {
      const own = membersIn(declared.get(`members_${name}`))
      const ofClass = Object.entries(membersIn(declared.get(`static_${name}`))).filter(
        ([each]) => each !== 'prototype',
      )
      const statics = Object.fromEntries(ofClass.map(([each, takes]) => [`static ${each}`, takes]))
      return [name, { constructor: namesIn(declared.get(`made_${name}`) ?? ''), ...own, ...statics }]
    })
    const fields = expressions.map((expression, index): [string, string[]] => [
      expression,
      namesIn(declared.get(`keys_${index}`) ?? ''),
    ])
    return { classes: Object.fromEntries(classes), fields: Object.fromEntries(fields) }
  } finally {
    rmSync(directory, { recursive: true })
  }
}

/** Generic types are not compared. */
function classesBelow(directory: string): Map<string, string> {
  const found = new Map<string, string>()
  const files = readdirSync(directory, { recursive: true, encoding: 'utf8' })
  for (const file of files.filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts')))
    for (const [, name = ''] of readFileSync(join(directory, file), 'utf8').matchAll(
      /^export class (\w+)(?!<)\b/gm,
    ))
      found.set(name, file)
  return found
}

function declarationsOf(probe: string, directory: string): Map<string, string> {
  const flags = '--ignoreConfig --declaration --emitDeclarationOnly --strict --exactOptionalPropertyTypes'
  const more = '--target es2023 --module nodenext --customConditions dormouse-source --skipLibCheck'
  const types = '--allowImportingTsExtensions --types node --lib es2023,dom,dom.iterable,esnext.disposable'
  const where = `--rootDir / --outDir ${join(directory, 'out')}`
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  execFileSync(process.execPath, [tsc, ...`${flags} ${more} ${types} ${where}`.split(' '), probe], {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const written = readdirSync(join(directory, 'out'), { recursive: true, encoding: 'utf8' })
  const declaration = written.find((path) => path.endsWith('probe.d.ts')) ?? ''
  const text = readFileSync(join(directory, 'out', declaration), 'utf8')
  const found = text.matchAll(/^export declare const (\w+): ([\s\S]*?);$(?=\nexport)/gm)
  return new Map([...found].map(([, name = '', type = '']) => [name, type]))
}

/** `{ name: 0; call: [label: 0, ".option" | ".option"]; }` */
function membersIn(type = ''): Members {
  const lines = [...type.matchAll(/^ {4}(?:readonly )?(\w+)\??: (.*);$/gm)]
  return Object.fromEntries(
    lines.map(([, name = '', takes = '']) => [name, takes.startsWith('[') ? namesIn(takes) : undefined]),
  )
}

/**
 * Labels of what is no options object, and the options of what is one; those of the client that is to be used as
 * `which`.
 */
function namesIn(type: string): string[] {
  const plain = type.replace(/which: [^,\]]*/g, 'which: 0')
  const labels = [...plain.matchAll(/(\w+)\??: 0/g)].map((match) => match[1] ?? '')
  const options = [...plain.matchAll(/"\.([\w.]+)"/g)].map((match) => match[1] ?? '')
  return [...new Set([...labels, ...options])]
}
