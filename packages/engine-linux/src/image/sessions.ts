import { join } from 'node:path'
import { readImage } from './image-file.ts'
import { getUint } from './message.ts'

const PSTREE = { pid: 1, parent: 2, session: 4 } as const

export interface TreeProcess {
  readonly pid: number
  readonly parent: number
  readonly session: number
}

/** The processes of a dump; the first is the root of the tree. */
export async function readTree(imageDir: string): Promise<TreeProcess[]> {
  const { records } = await readImage(join(imageDir, 'pstree.img'))
  const read = (field: number) => (record: (typeof records)[number]) => Number(getUint(record.message, field))
  return records.map((record) => ({
    pid: read(PSTREE.pid)(record),
    parent: read(PSTREE.parent)(record),
    session: read(PSTREE.session)(record),
  }))
}

/**
 * A process gets its session by being born into it: from a parent that is its member, or that was before it began one
 * of its own. CRIU works out who was born where, and fails at the restore when it cannot: for orphans taken in by
 * another process than the root, whose session's leader is not among their ancestors. Answers the first such process.
 */
export function findStranger(tree: readonly TreeProcess[]): TreeProcess | undefined {
  const [root] = tree
  const byPid = new Map(tree.map((each) => [each.pid, each]))
  const bornIn = new Map<number, number>()
  const isAtHome = (each: TreeProcess) => {
    // Children of the root get a helper that stands in for the leader of their session.
    if (each.parent === root?.pid || each.session === each.pid) return true
    let ancestor = byPid.get(each.parent)
    if (ancestor?.session === each.session) return true
    while (ancestor !== undefined && ancestor.pid !== each.session) {
      if ((bornIn.get(ancestor.pid) ?? each.session) !== each.session) return false
      bornIn.set(ancestor.pid, each.session)
      ancestor = byPid.get(ancestor.parent)
    }
    return ancestor !== undefined
  }
  return tree.find((each) => each !== root && !isAtHome(each))
}
