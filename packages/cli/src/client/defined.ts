type Defined<Fields> = { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> }

/** Only what was given: the contract refuses fields that are there without a value. */
export function defined<Fields extends object>(fields: Fields): Defined<Fields> {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined),
  ) as Defined<Fields>
}

/** The same, as a part of something: nothing when nothing was given. */
export function definedOrNothing<Fields extends object>(fields: Fields): Defined<Fields> | undefined {
  const given = defined(fields)
  return Object.keys(given).length === 0 ? undefined : given
}
