import { dirname, relative } from 'node:path'
import type { Expression, SourceFile } from 'typescript/unstable/ast'
import { API, type Checker, type Type } from 'typescript/unstable/sync'

/** A project whose types are known, also those of other packages: Biome's rules do not know them. */
export interface TypedProject extends Disposable {
  /** `FILE:LINE` of each expression that is a promise, among those that `find` names in each file of ours. */
  promises(find: (file: SourceFile) => readonly Expression[]): string[]
}

export function openProject(configFile: string): TypedProject {
  const root = dirname(configFile)
  const api = new API({ cwd: root })
  const project = api.updateSnapshot({ openProjects: [configFile] }).getProject(configFile)
  if (project === undefined) throw new Error(`There is no project ${configFile}.`)
  const { program, checker } = project
  const isPromise = promiseTest(checker)
  const ownFiles = program
    .getSourceFileNames()
    .filter((name) => !/\/(node_modules|dist)\/|\.d\.ts$/.test(name))
    .flatMap((name) => {
      const file = program.getSourceFile(name)
      return file === undefined ? [] : [{ name: relative(root, name), file }]
    })
  return {
    promises: (find) =>
      ownFiles.flatMap(({ name, file }) => {
        const found = find(file)
        const types = checker.getTypeAtLocation(found)
        return found
          .filter((_, index) => isPromise(types[index]))
          .map(({ end }) => `${name}:${file.text.slice(0, end).split('\n').length}`)
      }),
    [Symbol.dispose]: () => api.close(),
  }
}

/** Promises and unions with one. Not any object with `then`: a reply of Fastify has it. */
function promiseTest(checker: Checker): (type: Type | undefined) => boolean {
  const known = new Map<number, boolean>()
  const isPromise = (type: Type | undefined): boolean => {
    if (type === undefined) return false
    let is = known.get(type.id)
    if (is === undefined) {
      const has = (name: string) => checker.getPropertyOfType(type, name) !== undefined
      is = type.isUnionType() ? type.getTypes().some(isPromise) : has('then') && has('catch')
      known.set(type.id, is)
    }
    return is
  }
  return isPromise
}
