// A link from `runspine web` carries the token behind the #, which is never sent to a server or written to its log.
const given = decodeURIComponent(location.hash.slice(1));
if (given) {
  history.replaceState(null, "", location.pathname + location.search);
  document.getElementById("token").value = given;
  document.forms[0].submit();
}
