import { DormouseError, type SandboxId } from '@dormouse/contracts'

export function noSuchSandbox(idOrName: string): DormouseError {
  return new DormouseError('not_found', `There is no sandbox ${idOrName}.`, {
    hint: 'It may have been deleted or have expired. List what there is.',
  })
}

export function requireExists({ id, isDeleted }: { id: SandboxId; isDeleted: boolean }): void {
  if (isDeleted) throw noSuchSandbox(id)
}

export function nameTaken(name: string | undefined): DormouseError {
  return new DormouseError('name_taken', `There is already a sandbox named "${name}".`)
}

/** The name belongs to a sandbox of another host. */
export class NameTakenElsewhere extends DormouseError {
  /** The id of the sandbox that has the name. */
  readonly holder: string

  constructor(name: string, holder: string) {
    super('name_taken', `There is already a sandbox named "${name}".`)
    this.holder = holder
  }
}

export function callerGaveUp(): DormouseError {
  return new DormouseError('cancelled', 'The caller gave up waiting for the sandbox.')
}

/** What the ledger and views say of an error. Messages of errors without a code may hold host paths. */
export function reasonOf(error: unknown): string {
  return error instanceof DormouseError ? error.message : 'An internal error; the server log has it.'
}
