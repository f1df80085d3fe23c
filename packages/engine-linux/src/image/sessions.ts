import { join } from 'node:path'
import { readImage } from './image-file.ts'
import { getUint } from './message.ts'

const PSTREE = { pid: 1, parent: 2, session: 4 } as const

export interface TreeProcess {
  readonly pid: number
  readonly parent: number
  readonly session: number
}

/** Reads the processes of a dump. The first is the root of the tree. */
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
 * A process inherits its session at birth: from a parent that is in the session, or was before it started a session of
 * its own. CRIU reconstructs in which session each process was born. It fails at the restore when it cannot: for an
 * orphan adopted by a process other than the root, if the leader of its session is not among its ancestors. Returns the
 * first such process.
 */
export function findUnrestorable(tree: readonly TreeProcess[]): TreeProcess | undefined {
  const [root] = tree
  const byPid = new Map(tree.map((each) => [each.pid, each]))
  const bornIn = new Map<number, number>()
  const canRestore = (each: TreeProcess) => {
    // For children of the root CRIU makes a helper process that stands in for the session leader.
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
  return tree.find((each) => each !== root && !canRestore(each))
}
