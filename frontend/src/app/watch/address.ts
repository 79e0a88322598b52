// The state of the view in its address.

export class Address {
  get(name: string): string {
    return new URLSearchParams(location.search).get(name) ?? "";
  }

  set(name: string, value: string): void {
    const given = new URLSearchParams(location.search);
    if (value) given.set(name, value);
    else given.delete(name);
    const text = given.toString();
    history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
  }
}
