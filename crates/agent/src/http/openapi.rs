//! The OpenAPI 3.1 document of the interface, made from the table of routes and the documents' types.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    documents::{
        AcknowledgeRequest, AlertsDocument, CalendarDocument, Cancellation, MeshDocument, MuteRequest,
        PairDocument, ReservationsDocument, ResultsDocument, TransferResult,
    },
    routes::{Body, ROUTES, Response, Route},
};
use crate::{DirectoryDocument, NewReservation, PlanDocument, control::Status};

/// Where an OpenAPI document keeps schemas.
const SCHEMAS: &str = "/components/schemas";

/// The document.
pub(super) fn document() -> Value {
    // OpenAPI 3.1 uses JSON Schema 2020-12.
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = SCHEMAS.into());
    let mut generator = settings.into_generator();
    let paths: Map<String, Value> =
        ROUTES.iter().map(|route| (route.path.into(), operation(route, &mut generator))).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "longfat agent",
            "description": "A measurement point: the mesh as it knows it, and reservations for programs, which need a token.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer", "description": "longfat agent token create" } },
        },
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let parameters: Vec<Value> = route
        .parameters
        .iter()
        .map(|parameter| {
            json!({
                "name": parameter.name,
                "in": "query",
                "required": parameter.is_required,
                "description": parameter.about,
                "schema": { "type": if parameter.is_number { "integer" } else { "string" } },
            })
        })
        .collect();
    let content = match route.response {
        Response::Text => json!({ "text/plain": { "schema": { "type": "string" } } }),
        Response::AnyJson => json!({ "application/json": { "schema": { "type": "object" } } }),
        Response::Status => of::<Status>(generator),
        Response::Mesh => of::<MeshDocument>(generator),
        Response::Directory => of::<DirectoryDocument>(generator),
        Response::Pair => of::<PairDocument>(generator),
        Response::Results => of::<ResultsDocument>(generator),
        Response::Calendar => of::<CalendarDocument>(generator),
        Response::Reservations => of::<ReservationsDocument>(generator),
        Response::Alerts => of::<AlertsDocument>(generator),
        Response::Plan => of::<PlanDocument>(generator),
    };
    let error = |description: &str| json!({ "description": description, "content": { "text/plain": { "schema": { "type": "string" } } } });
    let mut responses =
        Map::from_iter([("200".to_string(), json!({ "description": "Success", "content": content }))]);
    if !route.parameters.is_empty() || route.body.is_some() {
        responses.insert("400".into(), error("The request is incomplete or invalid, or is refused"));
    }
    responses.insert("503".into(), error("The agent does not reply, or its archive cannot be read"));
    let id = route.path.rsplit('/').next().unwrap_or_default().replace('.', "_");
    let mut operation = json!({
        "operationId": id, "summary": route.summary, "parameters": parameters,
    });
    responses.insert("401".into(), error("The token is missing or not valid"));
    responses.insert("403".into(), error("The token lacks the scope"));
    let Some(body) = route.body else {
        operation["responses"] = responses.into();
        operation["security"] = json!([{}, { "token": [] }]);
        operation["description"] = json!(
            "Needs a token with the scope read if the configuration of the point has read = \"token\"."
        );
        return json!({ "get": operation });
    };
    for (status, text) in
        [("408", "The document did not arrive in time"), ("413", "The document is too long")]
    {
        responses.insert(status.into(), error(text));
    }
    operation["responses"] = responses.into();
    operation["requestBody"] = json!({ "required": true, "content": match body {
        Body::Reservation => of::<NewReservation>(generator),
        Body::Cancellation => of::<Cancellation>(generator),
        Body::Report => of::<TransferResult>(generator),
        Body::Acknowledge => of::<AcknowledgeRequest>(generator),
        Body::Mute => of::<MuteRequest>(generator),
    } });
    operation["security"] = json!([{ "token": [] }]);
    let scopes: Vec<&str> = body.scopes().iter().map(|scope| scope.name()).collect();
    operation["x-longfat-scope"] = scopes.join(" or ").into();
    json!({ "post": operation })
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    json!({ "application/json": { "schema": generator.subschema_for::<T>() } })
}
