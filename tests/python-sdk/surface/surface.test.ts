import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import * as sdk from 'dormouse'
import { describe, expect, test } from 'vitest'
import {
  BEGINNINGS,
  CLASSES,
  NO_CLASSES,
  ONLY_PYTHON_CLASSES,
  ONLY_TYPESCRIPT_CLASSES,
  type Twin,
} from './twins.ts'
import { type Members, typeScriptSurface } from './typescript-surface.ts'
import { NO_VALUES, VALUES, type Value } from './values.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))

/** An option of every call in TypeScript. In Python, the caller cancels the task or presses Ctrl-C. */
const ABORTED_BY = 'signal'
/**
 * The same, where a call waits only for an answer: in Python `Client(timeout=…)`, or `asyncio.timeout()`. Of a call that
 * has it in Python too, it is compared.
 */
const ENDS_AFTER = 'timeoutMs'
/** A client, or the options to make one. In Python, `Client` takes the other options. */
const WHICH = ['url', 'api_key', 'client']
/** In Python, `expires` is an object, and `network` is one argument for `mode` and `allow`. */
const ONE_ARGUMENT = /^(expires|network)\..*/

const typeScript = typeScriptSurface(Object.values(VALUES).flatMap(({ types }) => types))
const python = JSON.parse(
  execFileSync('/usr/bin/python3', ['-B', fileURLToPath(new URL('surface.py', import.meta.url))], {
    encoding: 'utf8',
    env: { PYTHONPATH: `${root}/python` },
  }),
) as {
  classes: Record<string, Members>
  others: string[]
  beginnings: string[]
  fields: Record<string, string[]>
}

function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** Ignores the inherited `constructor`. */
function own(renamed: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(renamed, name) ? renamed[name] : undefined
}

/** Durations are seconds in Python. */
function argument(option: string): string {
  return snake(option.replace(/^limits\./, '').replace(ONE_ARGUMENT, '$1')).replace(/_ms$/, '')
}

/** The expected names in Python, each with its name in TypeScript. */
function expected(members: Members, { renamed = {} }: Twin, inPython: Members): Map<string, string> {
  const names = new Map<string, string>()
  for (const [member, takes] of Object.entries(members)) {
    const of = own(renamed, member) ?? snake(member)
    names.set(of, member)
    for (const option of takes ?? []) {
      if (option === ABORTED_BY) continue
      if (option === ENDS_AFTER && !(inPython[of] ?? []).includes('timeout')) continue
      const one = own(renamed, `${member}(${option})`) ?? argument(option)
      for (const name of option === 'which' ? WHICH : [one])
        names.set(`${of}(${name})`, `${member}(${option})`)
    }
  }
  return names
}

function offered(members: Members): Map<string, string> {
  return new Map(
    Object.entries(members).flatMap(([member, takes]) =>
      [member, ...(takes ?? []).map((name) => `${member}(${name})`)].map((name) => [name, name] as const),
    ),
  )
}

/** What one has and the other lacks without a reason, and reasons that are not needed. */
function lacking(
  has: Map<string, string>,
  other: Map<string, string>,
  meant: Readonly<Record<string, string>> = {},
) {
  const missing = [...has].filter(([name]) => !other.has(name)).map(([, said]) => said)
  const isMeant = (name: string) =>
    Object.hasOwn(meant, name) || Object.hasOwn(meant, name.replace(/\(.*/, ''))
  return {
    lacks: missing.filter((name) => !isMeant(name)),
    'gives a reason for': Object.keys(meant).filter(
      (name) => !missing.some((each) => each === name || each.startsWith(`${name}(`)),
    ),
  }
}

const NOTHING = { lacks: [], 'gives a reason for': [] }

describe('the Python SDK has what the TypeScript SDK has', () => {
  test.each(Object.entries(CLASSES))('%s', (name, twin) => {
    const inTypeScript = { ...typeScript.classes[name] }
    const inPython = { ...python.classes[twin.python] }
    // Callers do not construct these.
    const isMade = name === 'Dormouse' || name === 'Sandbox' || name === 'DormouseError'
    if (!isMade) for (const members of [inTypeScript, inPython]) delete members['constructor']
    const [wanted, found] = [expected(inTypeScript, twin, inPython), offered(inPython)]
    expect(wanted.size).toBeGreaterThan(1)
    expect(lacking(wanted, found, twin.onlyTypeScript), 'Python').toEqual(NOTHING)
    expect(lacking(found, wanted, twin.onlyPython), 'TypeScript').toEqual(NOTHING)
  })

  test.each(Object.entries(VALUES))('the value %s', (name, value: Value) => {
    const keys = value.types.flatMap((type) => typeScript.fields[type] ?? [])
    const wanted = new Map(keys.map((key) => [value.renamed?.[key] ?? snake(key), key]))
    const found = new Map((python.fields[name] ?? []).map((field) => [field, field]))
    expect(wanted.size).toBeGreaterThan(1)
    expect(lacking(wanted, found, value.onlyTypeScript), 'Python').toEqual(NOTHING)
    expect(lacking(found, wanted, value.onlyPython), 'TypeScript').toEqual(NOTHING)
  })

  test('both export only classes, which are compared, and what has a reason', () => {
    expect(python.others).toEqual([])
    const others = Object.keys(sdk).filter((name) => !Object.hasOwn(CLASSES, name))
    expect(others.sort()).toEqual(Object.keys(NO_CLASSES).sort())
  })

  test('templates begin with the same', () => {
    const wanted = Object.keys(sdk.Template).map((name) => own(BEGINNINGS, name) ?? snake(name))
    expect(python.beginnings.sort()).toEqual(wanted.sort())
  })

  test('every class and every value is compared', () => {
    const twins = Object.values(CLASSES).map((twin) => twin.python)
    expect(Object.keys(typeScript.classes).sort()).toEqual(
      [...Object.keys(CLASSES), ...Object.keys(ONLY_TYPESCRIPT_CLASSES)].sort(),
    )
    expect(Object.keys(python.classes).sort()).toEqual([...twins, ...Object.keys(ONLY_PYTHON_CLASSES)].sort())
    expect(Object.keys(python.fields).sort()).toEqual(Object.keys(VALUES).sort())
    const contract = readFileSync(`${root}/packages/sdk/src/contract/index.ts`, 'utf8')
    const answers = [...new Set(contract.match(/\b\w+Answer\b/g))].filter(
      (name) => !/(List|Page)Answer$/.test(name),
    )
    const used = Object.values(VALUES).flatMap(({ types }) => types.join(' ').match(/\b\w+Answer\b/g) ?? [])
    expect(answers.sort()).toEqual([...new Set([...used, ...Object.keys(NO_VALUES)])].sort())
  })
})
